"""Reading the files that a user names on a command line."""

from __future__ import annotations

import sys
from pathlib import Path

from stowplan.cli.main import CommandError


def read_file(name: str) -> bytes:
    """What is in a file; `-` is standard input."""
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as problem:
        raise CommandError(f"{name}: {problem.strerror}") from problem
