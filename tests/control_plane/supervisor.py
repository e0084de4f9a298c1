"""A process that stands between a test and the servers it needs, and outlives the test by a moment.

A test that gets SIGKILL can clean up nothing. So the servers belong to this process: it holds one end of a
pipe whose other end only the test has. When the test lets go, in whatever way, it stops the servers and
removes their folder. Should this process itself be killed, the kernel kills the servers (PR_SET_PDEATHSIG).

One JSON object comes in on stdin (`plane.Options` and the binaries' folder), one goes out on stdout:
`{"server": ...}` or `{"error": ...}`.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import secrets
import select
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from tests.control_plane.certificates import write_key, write_serving_pair

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_START_SECONDS = 60.0
_PORT_ATTEMPTS = 3
_ADMISSION = {
    "service_account_admission": "ServiceAccount",
    "taint_nodes_by_condition": "TaintNodesByCondition",
    "priority_admission": "Priority",
}


class StartError(Exception):
    """A server did not come up; the text ends with the last lines of its log."""


class AbandonedError(Exception):
    """The test went away while the servers were starting."""


class PortTakenError(StartError):
    """Somebody else took a port between our choosing it and the server's opening it."""


def _die_with(parent: int) -> None:
    """Runs in the child, before it becomes a server."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # gone before the kernel knew about the wish
        os._exit(1)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class Servers:
    """etcd and kube-apiserver over one folder."""

    def __init__(self, options: dict[str, Any], folder: Path) -> None:
        self.options = options
        self.folder = folder
        self.token = secrets.token_urlsafe(24)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.url = ""

    def start(self) -> None:
        self._write_credentials()
        for attempt in range(_PORT_ATTEMPTS):
            try:
                self._start_on(*_free_ports(3))
                return
            except PortTakenError:
                self.stop()
                shutil.rmtree(self.folder / "etcd", ignore_errors=True)
                if attempt == _PORT_ATTEMPTS - 1:
                    raise

    def stop(self) -> None:
        """SIGKILL at once: nothing they hold outlives the folder, which is about to go."""
        for process in reversed(self.processes.values()):
            process.kill()
            process.wait()
        self.processes.clear()

    def _write_credentials(self) -> None:
        write_serving_pair(self.folder / "server.crt", self.folder / "server.key")
        write_key(self.folder / "service-account.key")
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f'{self.token},admin,admin,"system:masters"\n')
        tokens.chmod(0o600)

    def _start_on(self, etcd_port: int, peer_port: int, server_port: int) -> None:
        self.url = f"https://127.0.0.1:{server_port}"
        self._spawn("etcd", self._etcd_arguments(etcd_port, peer_port))
        self._wait("etcd", lambda: _answers(f"http://127.0.0.1:{etcd_port}/health"))
        self._spawn("kube-apiserver", self._apiserver_arguments(etcd_port, server_port))
        trust = ssl.create_default_context(cafile=str(self.folder / "server.crt"))
        self._wait("kube-apiserver", lambda: _answers(f"{self.url}/readyz", trust))
        self._write_kubeconfig()

    def _etcd_arguments(self, port: int, peer_port: int) -> list[str]:
        client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
        return [
            "--name=test",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=test={peer}",
            "--unsafe-no-fsync",
            # A member alone waits for one election timeout before it serves.
            "--heartbeat-interval=20",
            "--election-timeout=200",
            "--log-level=warn",
        ]

    def _apiserver_arguments(self, etcd_port: int, port: int) -> list[str]:
        options = self.options
        arguments = [
            f"--etcd-servers=http://127.0.0.1:{etcd_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={self.folder / 'server.crt'}",
            f"--tls-private-key-file={self.folder / 'server.key'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://stowplan.test",
            f"--service-account-key-file={self.folder / 'service-account.key'}",
            f"--service-account-signing-key-file={self.folder / 'service-account.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
            "--allow-privileged=true",
            "--profiling=false",
        ]
        off = [plugin for option, plugin in _ADMISSION.items() if not options[option]]
        if off:
            arguments.append(f"--disable-admission-plugins={','.join(off)}")
        for flag, values in (
            ("feature-gates", options["feature_gates"]),
            ("runtime-config", options["runtime_config"]),
        ):
            if values:
                pairs = ",".join(f"{key}={str(value).lower()}" for key, value in values.items())
                arguments.append(f"--{flag}={pairs}")
        return [*arguments, *options["apiserver_arguments"]]

    def _spawn(self, program: str, arguments: list[str]) -> None:
        with (self.folder / f"{program}.log").open("wb") as log:
            self.processes[program] = subprocess.Popen(
                [Path(self.options["binaries"]) / program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                preexec_fn=partial(_die_with, os.getpid()),  # noqa: PLW1509 -- this process has a single thread
            )

    def _wait(self, program: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not ready():
            if self.processes[program].poll() is not None:
                log = self._log_tail(program)
                kind = PortTakenError if "address already in use" in log else StartError
                raise kind(f"{program} ended with code {self.processes[program].returncode}:\n{log}")
            if time.monotonic() > deadline:
                log = self._log_tail(program)
                raise StartError(f"{program} was not ready after {_START_SECONDS:.0f} s:\n{log}")
            if _let_go(sys.stdin, 0.03):
                raise AbandonedError

    def _log_tail(self, program: str) -> str:
        return "\n".join((self.folder / f"{program}.log").read_text(errors="replace").splitlines()[-15:])

    def _write_kubeconfig(self) -> None:
        authority = base64.b64encode((self.folder / "server.crt").read_bytes()).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "test", "cluster": {"server": self.url, "certificate-authority-data": authority}}
            ],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
            "current-context": "test",
        }
        path = self.folder / "kubeconfig"
        path.write_text(json.dumps(config, indent=2))  # JSON is YAML
        path.chmod(0o600)


def _answers(url: str, trust: ssl.SSLContext | None = None) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2, context=trust) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _let_go(pipe: TextIO, seconds: float) -> bool:
    """Whether the test closed its end; waits up to that long. Nothing is ever sent after the first line."""
    return bool(select.select([pipe], [], [], seconds)[0])


def _say(message: dict[str, Any]) -> None:
    # A test that is already gone hears nothing; the pipe tells us next.
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(message), flush=True)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    options = json.loads(sys.stdin.readline())
    folder = Path(tempfile.mkdtemp(prefix="stowplan-control-plane-"))
    servers = Servers(options, folder)
    try:
        servers.start()
        pids = {name: process.pid for name, process in servers.processes.items()} | {
            "supervisor": os.getpid()
        }
        _say({"server": servers.url, "folder": str(folder), "token": servers.token, "pids": pids})
        while not _let_go(sys.stdin, 3600):
            pass
    except StartError as error:
        _say({"error": str(error)})
    except AbandonedError:
        pass
    finally:
        servers.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
