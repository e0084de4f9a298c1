"""Pods in order, where any of them can be taken out."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from stowplan.queue.queued import QueuedPod

_Entry = tuple[Any, int, QueuedPod]
_SLACK = 64


class PodHeap:
    """A heap of pods by a key of their own. Pods that were taken out leave an entry behind, which is
    dropped when it comes up; equal keys come in the order in which they were put in."""

    __slots__ = ("_entries", "_key", "_next", "_standing")

    def __init__(self, key: Callable[[QueuedPod], Any]) -> None:
        self._key = key
        self._entries: list[_Entry] = []
        self._standing: dict[str, _Entry] = {}
        """The one entry of each pod that counts."""
        self._next = count()

    def push(self, queued: QueuedPod) -> None:
        """Puts a pod in; one of the same namespace and name is replaced."""
        entry = (self._key(queued), next(self._next), queued)
        self._standing[queued.key] = entry
        heapq.heappush(self._entries, entry)
        if len(self._entries) > _SLACK + 2 * len(self._standing):
            self._entries = list(self._standing.values())
            heapq.heapify(self._entries)

    def refresh(self, queued: QueuedPod) -> None:
        """The pod has changed, and with it perhaps its place."""
        if self._standing[queued.key][0] != self._key(queued):
            self.push(queued)

    def peek(self) -> QueuedPod | None:
        """The first pod, which stays."""
        entries, standing = self._entries, self._standing
        while entries:
            entry = entries[0]
            if standing.get(entry[2].key) is entry:
                return entry[2]
            heapq.heappop(entries)
        return None

    def pop(self) -> QueuedPod | None:
        """The first pod, taken out."""
        queued = self.peek()
        if queued is not None:
            heapq.heappop(self._entries)
            del self._standing[queued.key]
        return queued

    def remove(self, key: str) -> QueuedPod | None:
        """Takes a pod out, wherever it stands."""
        entry = self._standing.pop(key, None)
        return None if entry is None else entry[2]

    def get(self, key: str) -> QueuedPod | None:
        entry = self._standing.get(key)
        return None if entry is None else entry[2]

    def __len__(self) -> int:
        return len(self._standing)

    def __iter__(self) -> Iterator[QueuedPod]:
        return (entry[2] for entry in list(self._standing.values()))

    def __contains__(self, key: object) -> bool:
        return key in self._standing
