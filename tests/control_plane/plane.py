"""A real API server with its own etcd, for as long as a test holds it.

with start(Options(taint_nodes_by_condition=True)) as plane:
    plane.client().create("/api/v1/nodes", {...})
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.control_plane import binaries
from tests.control_plane.client import Client

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a test may choose. Authorisation is always RBAC; the admin token is in `system:masters`.

    Nothing runs beside the API server: with `service_account_admission`, a pod is only admitted once the test
    has made its service account, and with `taint_nodes_by_condition`, a new node stays `not-ready:NoSchedule`
    until the test takes that taint off.
    """

    service_account_admission: bool = False
    taint_nodes_by_condition: bool = False
    priority_admission: bool = True
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    runtime_config: Mapping[str, bool] = field(default_factory=dict)
    apiserver_arguments: tuple[str, ...] = ()


class StartError(RuntimeError):
    """The control plane did not come up; the text carries the end of the failing server's log."""


class ControlPlane:
    """Running servers. `stop` is idempotent; leaving them running is impossible (see `supervisor`)."""

    def __init__(
        self,
        supervisor: subprocess.Popen[str],
        *,
        server: str,
        folder: str,
        token: str,
        pids: Mapping[str, int],
    ) -> None:
        self._supervisor = supervisor
        self.server = server
        self.folder = Path(folder)
        self.kubeconfig = self.folder / "kubeconfig"
        self.certificate_authority = self.folder / "server.crt"
        self.token = token
        self.pids = dict(pids)

    def client(self, token: str | None = None) -> Client:
        """A client as admin, or as the owner of another token."""
        return Client(self.server, self.certificate_authority, token or self.token)

    def log(self, program: str) -> str:
        return (self.folder / f"{program}.log").read_text(errors="replace")

    def stop(self) -> None:
        _let_go(self._supervisor)
        # Already done by the supervisor, unless that was killed.
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start(options: Options | None = None, *, folder_of_binaries: Path | None = None) -> ControlPlane:
    """Starts etcd and kube-apiserver on free loopback ports and returns when the API server is ready."""
    where = folder_of_binaries or binaries.folder()
    # A session of its own: Ctrl-C, or a kill of the test's whole group, must not take the one that cleans up.
    supervisor = subprocess.Popen(
        [sys.executable, "-m", "tests.control_plane.supervisor"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        start_new_session=True,
    )
    assert supervisor.stdin and supervisor.stdout
    supervisor.stdin.write(json.dumps({**asdict(options or Options()), "binaries": str(where)}) + "\n")
    supervisor.stdin.flush()
    try:
        answer = json.loads(
            supervisor.stdout.readline() or '{"error": "the supervisor died; see its traceback"}'
        )
    except BaseException:
        _let_go(supervisor)
        raise
    if "error" in answer:
        _let_go(supervisor)
        raise StartError(answer["error"])
    return ControlPlane(supervisor, **answer)


def _let_go(supervisor: subprocess.Popen[str]) -> None:
    assert supervisor.stdin and supervisor.stdout
    supervisor.stdin.close()
    supervisor.stdout.close()
    try:
        supervisor.wait(timeout=30)
    except subprocess.TimeoutExpired:
        supervisor.kill()  # its servers die with it
        supervisor.wait()
