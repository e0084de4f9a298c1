"""PrioritySort: pods of higher priority are scheduled first, and among equals the one that waits longest."""

from __future__ import annotations

from stowplan.framework import QueuedPod, QueueSortPlugin, Reads
from stowplan.objects import Pod


class PrioritySort(QueueSortPlugin):
    """Orders the active queue."""

    reads = Reads.NODE

    def shape(self, pod: Pod) -> None:
        """No node is judged by priority."""

    def sort_key(self, queued: QueuedPod) -> tuple[int, float]:
        return -queued.pod.spec.priority, queued.timestamp
