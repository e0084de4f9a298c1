"""Which of several best nodes: the same every time for the same seed, pod and attempt."""

from __future__ import annotations

from zlib import crc32

from stowplan.cluster import IntColumn
from stowplan.objects import Pod


def pick_best(totals: IntColumn, seed: int, pod: Pod, attempt: int) -> int:
    """The position of a highest total. Which one of equals is drawn from (seed, uid, attempt), so any
    decision can be made again from the same state."""
    best = (totals == totals.item(totals.argmax())).nonzero()[0]
    if best.size == 1:
        return int(best[0])
    drawn = crc32(f"{seed}/{pod.uid}/{attempt}".encode())
    return int(best[drawn % best.size])
