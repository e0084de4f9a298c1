"""The command's entry point: what it loads, what it says, how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from stowplan import __version__
from stowplan.cli import main as entry


def stowplan(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stowplan", *words], capture_output=True, text=True, check=False
    )


def test_help_names_every_command_and_imports_none_of_the_heavy_libraries() -> None:
    script = (
        "import sys\nfrom stowplan.cli.main import main\n"
        "try: main(['--help'])\n"
        "finally: print('LOADED', sorted({'numpy', 'msgspec', 'yaml', 'stowplan.engine'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "LOADED []" in shown
    for name in entry.COMMANDS:
        assert f"\n    {name}" in shown


def test_version() -> None:
    assert stowplan("--version").stdout == f"stowplan {__version__}\n"


@pytest.mark.parametrize("words", [[], ["no-such-command"], ["--no-such-option"]])
def test_a_wrong_command_line_is_a_usage_error(words: list[str]) -> None:
    ended = stowplan(*words)
    assert ended.returncode == 2
    assert "usage: stowplan" in ended.stderr


@pytest.mark.parametrize("name", entry.COMMANDS)
def test_every_command_says_what_it_does(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    if name in entry.OWN_DIALECT:
        assert entry.main([name, "--help"]) == 0
    else:
        with pytest.raises(SystemExit) as ended:
            entry.main([name, "--help"])
        assert ended.value.code == 0
    summary = (import_module(f"stowplan.cli.{name}").__doc__ or "").splitlines()[0]
    assert summary
    assert summary in capsys.readouterr().out


def test_what_the_user_can_put_right_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(words: list[str]) -> int:
        raise entry.CommandError(f"no file {words[0]}")

    monkeypatch.setattr(entry, "_run", fail)
    assert entry.main(["x.yaml"]) == 1
    assert capsys.readouterr().err == "stowplan: no file x.yaml\n"


def test_ctrl_c_ends_quietly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(words: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(entry, "_run", interrupted)
    assert entry.main([]) == 130
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("words", [("demo",), ("config", "print"), ("run", "--help")])
def test_a_full_disk_is_one_line(words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "stowplan", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ended.returncode == 1
    assert ended.stderr == "stowplan: the output: No space left on device\n"


def test_a_terminal_that_lacks_characters_gets_their_numbers() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "stowplan", "run", "--help"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=True,
    )
    assert b"pattern=N,\\u2026" in ended.stdout
