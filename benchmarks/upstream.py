"""kube-scheduler's core under a load: hack/control-plane/corebench, fed with the same objects."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile

from benchmarks.loads import Load
from benchmarks.ours import Run, encoded

_BUILD = Path(__file__).parents[1] / "hack" / "control-plane" / "build-corebench.sh"


def find_or_build() -> Path | None:
    """The program, built if Go is there; None when it cannot be had."""
    where = subprocess.run([_BUILD, "--where"], check=True, capture_output=True, text=True).stdout.strip()
    if Path(where).exists():
        return Path(where)
    if shutil.which("go") is None:
        print("upstream: not measured, because there is no Go to build it with", file=sys.stderr)
        return None
    built = subprocess.run([_BUILD], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return Path(built)


def run(program: Path, load: Load, percentage: int = 0) -> Run:
    """Once. A percentage of 100 makes it look at all nodes; 0 is its own default."""
    with TemporaryFile() as lines:
        for obj in chain(load.there(), load.pods()):
            lines.write(encoded(obj) + b"\n")
        lines.seek(0)
        command = [str(program), f"-percentage={percentage}"]
        answer = subprocess.run(command, check=True, stdin=lines, stdout=subprocess.PIPE, text=True).stdout
    known = json.loads(answer)
    return Run(**{name: known[name] for name in Run.__dataclass_fields__})
