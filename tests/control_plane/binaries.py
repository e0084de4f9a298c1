"""Where the control plane's binaries are, as `make control-plane` put them there."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

PROGRAMS = ("etcd", "kube-apiserver", "kube-scheduler", "kubectl")
BUILD_SCRIPT = Path(__file__).parents[2] / "hack" / "control-plane" / "build.sh"
MISSING = "no control plane binaries in {folder}: `make control-plane` builds them (needs Go)"


@cache
def folder() -> Path:
    """Asks the build script, so that versions and folder names are written in one place only."""
    where = subprocess.run([BUILD_SCRIPT, "--where"], check=True, capture_output=True, text=True)
    return Path(where.stdout.strip())


def missing() -> str | None:
    """One line that says what to do, or None when all binaries are there."""
    if all(os.access(folder() / program, os.X_OK) for program in PROGRAMS):
        return None
    return MISSING.format(folder=folder())
