"""Processes that do not outlive the run that started them, even if that is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_WITH_PARENT = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""The kernel kills the process when its parent goes (PR_SET_PDEATHSIG). Set by the child itself before it
becomes what it should be, because a parent with threads must do as little as possible after a fork."""


def spawn(
    command: Sequence[str], log: Path, folder: Path, environ: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Starts a program whose output goes to the end of a log. To be called in the main thread: with the
    thread that called it, the child would end."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-S", "-c", _WITH_PARENT, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            env=dict(os.environ if environ is None else environ),
        )
