"""How long a full cluster takes to load, and what memory it takes: `python -m benchmarks.filling FILE`.

A process of its own, because memory once used is not given back.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile

from benchmarks.loads import filled
from benchmarks.ours import encoded
from stowplan.cluster import Cluster
from stowplan.objects import decode_object


def measure(nodes: int, pods: int) -> dict[str, float]:
    """Seconds, and resident megabytes before and after, in a fresh process."""
    with NamedTemporaryFile(suffix=".jsonl") as lines:
        for obj in filled(nodes, pods):
            lines.write(encoded(obj) + b"\n")
        lines.flush()
        command = [sys.executable, "-m", "benchmarks.filling", lines.name]
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, float] = json.loads(answer)
    return found


def _resident() -> float:
    """Megabytes, by the kernel's account."""
    found = re.search(r"^VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1]) / 1024 if found else float("nan")


def main(arguments: Sequence[str]) -> None:
    before = _resident()
    cluster = Cluster()
    started = time.perf_counter()
    with Path(arguments[0]).open("rb") as lines:
        for line in lines:
            cluster.add(decode_object(line))
    seconds = time.perf_counter() - started
    print(
        json.dumps({"seconds": seconds, "before": before, "resident": _resident(), "pods": len(cluster.pods)})
    )


if __name__ == "__main__":
    main(sys.argv[1:])
