"""What can happen to the API server and to etcd."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.control_plane.plane import ControlPlane
from tests.soak.children import spawn
from tests.soak.watching import trust_in

_READY_SECONDS = 60.0


class Servers:
    """The servers of a control plane, which otherwise nothing happens to."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._api_pid = plane.pids["kube-apiserver"]
        self._etcd_pid = plane.pids["etcd"]
        self._command = Path(f"/proc/{self._api_pid}/cmdline").read_bytes().decode().rstrip("\0").split("\0")
        self._replacement: subprocess.Popen[bytes] | None = None
        self._trust = trust_in(plane)

    def kill_api(self) -> None:
        """At once, with everything under way."""
        if self._replacement is not None:
            self._replacement.kill()
            self._replacement.wait()
        else:
            os.kill(self._api_pid, signal.SIGKILL)

    def start_api(self) -> None:
        """The same server again: same port, same certificates, same etcd."""
        log = self._plane.folder / "kube-apiserver.log"
        self._replacement = spawn(self._command, log, self._plane.folder)

    def wait_for_api(self) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while not self._ready():
            if time.monotonic() > deadline:
                raise TimeoutError(f"kube-apiserver is not ready after {_READY_SECONDS:.0f} s")
            time.sleep(0.1)

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(
                f"{self._plane.server}/readyz", timeout=2, context=self._trust
            ) as said:
                return bool(said.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def freeze_etcd(self) -> None:
        os.kill(self._etcd_pid, signal.SIGSTOP)

    def thaw_etcd(self) -> None:
        os.kill(self._etcd_pid, signal.SIGCONT)

    def close(self) -> None:
        """Leaves nothing behind that the control plane would not clean up itself."""
        with contextlib.suppress(ProcessLookupError):
            self.thaw_etcd()
        if self._replacement is not None:
            self._replacement.kill()
            self._replacement.wait()
