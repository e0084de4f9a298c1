"""The schedulers under test: processes that are killed, and started again as a kubelet would."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.control_plane.plane import ControlPlane
from tests.soak.children import spawn
from tests.soak.leasebook import LeaseBook
from tests.soak.proxy import Proxy

_RESIDENT = re.compile(r"^VmRSS:\s+(\d+) kB", re.MULTILINE)
_TROUBLE = re.compile(r"Traceback \(most recent call last\)|unexpected failure|was never awaited")
_STOP_SECONDS = 20.0
_RESTART_SECONDS = 1.0


@dataclass(frozen=True)
class LeaseTimes:
    """Leader election, shorter than the default, so that a run with many faults fits into minutes."""

    duration: int = 6
    deadline: int = 4
    retry: int = 1


@dataclass
class Life:
    """One process of a replica."""

    replica: str
    started: float
    ended: float | None = None
    code: int | None = None
    wanted: bool = False
    """Whether the run itself ended it."""
    resident: list[tuple[float, float]] = field(default_factory=list)
    """When, and megabytes."""


class Replica:
    """One of the schedulers, with its own way to the API server."""

    def __init__(
        self, plane: ControlPlane, proxy: Proxy, book: LeaseBook, folder: Path, times: LeaseTimes
    ) -> None:
        self.name = proxy.replica
        self.proxy = proxy
        self.log = folder / f"{self.name}.log"
        self.lives: list[Life] = []
        self.restarts = True
        """Whether it comes back when it ends."""
        self._book = book
        self._folder = folder
        self._config = folder / f"{self.name}.yaml"
        self._process: subprocess.Popen[bytes] | None = None
        self._write_config(plane, times)

    def _write_config(self, plane: ControlPlane, times: LeaseTimes) -> None:
        kubeconfig = self._folder / f"{self.name}.kubeconfig"
        server = {"server": f"http://127.0.0.1:{self.proxy.port}"}
        access = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "soak", "cluster": server}],
            "users": [{"name": "soak", "user": {"token": plane.token}}],
            "contexts": [{"name": "soak", "context": {"cluster": "soak", "user": "soak"}}],
            "current-context": "soak",
        }
        kubeconfig.write_text(json.dumps(access))
        kubeconfig.chmod(0o600)
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000},
            "leaderElection": {
                "leaderElect": True,
                "leaseDuration": f"{times.duration}s",
                "renewDeadline": f"{times.deadline}s",
                "retryPeriod": f"{times.retry}s",
            },
        }
        self._config.write_text(json.dumps(config))

    # Its life

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        self._book.started(self.name)
        environ = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        command = [sys.executable, "-m", "stowplan", "run", f"--config={self._config}", "--secure-port=0"]
        self._process = spawn(command, self.log, self._folder, environ)
        self.lives.append(Life(self.name, time.monotonic()))

    def kill(self) -> None:
        """SIGKILL, as the kernel does when memory is short."""
        self._end(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM, as a kubelet does at first."""
        self._end(signal.SIGTERM)

    def send(self, what: signal.Signals) -> None:
        """For those that do not end it."""
        if self._process is not None:
            self._process.send_signal(what)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self.lives[-1].wanted = True
            self._process.send_signal(how)

    def look_after(self, now: float) -> None:
        """Notices that it ended, and starts it again a moment later; takes down how big it is."""
        if self._process is None:
            return
        life = self.lives[-1]
        code = self._process.poll()
        if code is None:
            life.resident.append((now, resident(self._process.pid)))
        elif life.ended is None:
            life.ended, life.code = now, code
        elif self.restarts and now - life.ended >= _RESTART_SECONDS:
            self.start()

    def stop(self) -> int | None:
        """Ends it for good, politely; returns its exit code, None when it had to be killed."""
        self.restarts = False
        if self._process is None:
            return 0
        self.terminate()
        try:
            return self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return None

    # What it says about itself

    def troubles(self) -> list[str]:
        """Lines of its log that should never be there, and ends that nobody wanted."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        found = [f"{self.name} said: {line}" for line in text.splitlines() if _TROUBLE.search(line)]
        # A scheduler that loses its lease ends with code 1 and is started again. A crash shows in the log.
        bad = [life for life in self.lives if life.code not in {None, 0, 1} and not life.wanted]
        return found + [f"{self.name} ended with code {life.code}" for life in bad]


def resident(pid: int) -> float:
    """Megabytes; 0 for a process that is gone."""
    try:
        found = _RESIDENT.search(Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0.0
    return int(found[1]) / 1024 if found else 0.0
