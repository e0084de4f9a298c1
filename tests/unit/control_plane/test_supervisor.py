"""The supervisor with servers that fail, which needs no real ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.control_plane.plane import StartError, start

# Answers /health like etcd, on the port it is given, and notes that it ran.
ETCD = """#!{python}
import http.server, os, re, sys
port = int(re.search(r"--listen-client-urls=http://127.0.0.1:(\\d+)", " ".join(sys.argv))[1])
open("{notes}/etcd-" + str(os.getpid()), "w").close()
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", port), Health).serve_forever()
"""


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the fake servers write; the supervisor's folders go there too."""
    for folder in ("notes", "bin", "tmp"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    return tmp_path / "notes"


def put_program(notes: Path, name: str, text: str) -> None:
    program = notes.parent / "bin" / name
    program.write_text(text)
    program.chmod(0o755)


def put_etcd(notes: Path) -> None:
    put_program(notes, "etcd", ETCD.format(python=sys.executable, notes=notes))


def fail_to_start(notes: Path) -> str:
    with pytest.raises(StartError) as failed:
        start(folder_of_binaries=notes.parent / "bin")
    return str(failed.value)


def left_running(notes: Path) -> list[str]:
    return [note.name for note in notes.glob("etcd-*") if Path("/proc", note.name[5:]).exists()]


def test_a_failing_server_is_quoted_and_nothing_stays(notes: Path) -> None:
    put_etcd(notes)
    put_program(notes, "kube-apiserver", "#!/bin/sh\necho 'no such flag' >&2\nexit 3\n")
    assert fail_to_start(notes) == "kube-apiserver ended with code 3:\nno such flag"
    assert len(list(notes.glob("etcd-*"))) == 1
    assert left_running(notes) == []
    assert list((notes.parent / "tmp").iterdir()) == []


def test_a_port_taken_by_another_is_tried_again_with_another(notes: Path) -> None:
    put_etcd(notes)
    script = f'#!/bin/sh\necho "$*" >> {notes}/attempts\necho "bind: address already in use" >&2\nexit 1\n'
    put_program(notes, "kube-apiserver", script)
    assert "address already in use" in fail_to_start(notes)
    attempts = (notes / "attempts").read_text().splitlines()
    assert len(attempts) == 3
    assert len(set(attempts)) == 3
    assert left_running(notes) == []
