"""The two sides as processes: kube-scheduler and `stowplan run`, started with the same configuration."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.e2e_server import JSON, PROTOBUF
from tests.control_plane import binaries

_TICKS = os.sysconf("SC_CLK_TCK")
_MEMORY = re.compile(r"^(VmRSS|VmHWM):\s+(\d+) kB", re.MULTILINE)
_FLAGS = ("--secure-port=0",)
"""Neither side serves metrics: what serving them costs is not what is measured."""


@dataclass(frozen=True)
class Side:
    """One of the two schedulers."""

    name: str
    command: tuple[str, ...]
    accept: bytes
    """The encoding that it reads pods in."""

    def start(self, config: Path, log: Path) -> Running:
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*self.command, f"--config={config}", *_FLAGS],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=_environ(),
            )
        return Running(self, process, log)


class Running:
    """A scheduler that runs."""

    def __init__(self, side: Side, process: subprocess.Popen[bytes], log: Path) -> None:
        self.side = side
        self.started = time.perf_counter()
        self._process = process
        self._log = log

    def cpu(self) -> float:
        """Seconds of processor time so far, user and system."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def memory(self) -> tuple[float, float]:
        """Megabytes resident now, and at most so far."""
        found = dict(_MEMORY.findall(Path(f"/proc/{self._process.pid}/status").read_text()))
        return int(found["VmRSS"]) / 1024, int(found["VmHWM"]) / 1024

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def log_tail(self, lines: int = 15) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self) -> None:
        """Ends it, and waits for that."""
        if not self.ended:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()


def upstream() -> Side:
    return Side("upstream", (str(binaries.folder() / "kube-scheduler"),), PROTOBUF)


def stowplan() -> Side:
    return Side("stowplan", (sys.executable, "-m", "stowplan", "run"), JSON)


def _environ() -> dict[str, str]:
    """Ours, but with compiled modules kept, as they are wherever a package is installed."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def install() -> None:
    """Compiles our own modules, as an installer would."""
    package = Path(__file__).parents[1] / "src" / "stowplan"
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(package)], check=True, env=_environ())


def works(command: Sequence[str]) -> bool:
    """Whether a program knows how to start at all."""
    asked = subprocess.run([*command, "--help"], check=False, capture_output=True, env=_environ())
    return asked.returncode == 0


def write_config(kubeconfig: Path, target: Path) -> Path:
    """The configuration of both: as delivered, but without a limit to the client's rate that would matter."""
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000},
        "leaderElection": {"leaderElect": False},
    }
    target.write_bytes(msgspec.json.encode(config))  # JSON is YAML
    return target
