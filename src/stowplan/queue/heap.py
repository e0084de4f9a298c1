"""Pods in order, where any of them can be taken out."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from stowplan.framework.failure import pass_on_exit
from stowplan.queue.queued import QueuedPod

log = logging.getLogger(__name__)

_Entry = tuple[Any, int, QueuedPod]
_SLACK = 64


class _Lenient:
    """A key that comes before no key that it cannot be compared with."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __lt__(self, other: _Lenient) -> bool:
        try:
            return bool(self.key < other.key)
        except BaseException as problem:
            pass_on_exit(problem)
            return False


class PodHeap:
    """A heap of pods by a key of their own. Pods that were taken out leave an entry behind, which is
    dropped when it comes up; equal keys come in the order in which they were put in.

    Keys are a plugin's, and may turn out not to be comparable with each other. No pod is lost by that.
    """

    __slots__ = ("_entries", "_key", "_next", "_standing", "_whose")

    def __init__(self, key: Callable[[QueuedPod], Any], whose: str = "") -> None:
        self._key = key
        self._whose = whose
        self._entries: list[_Entry] = []
        self._standing: dict[str, _Entry] = {}
        """The one entry of each pod that counts."""
        self._next = count()

    def push(self, queued: QueuedPod) -> None:
        """Puts a pod in; one of the same namespace and name is replaced."""
        entry = (self._key(queued), next(self._next), queued)
        self._standing[queued.key] = entry
        try:
            heapq.heappush(self._entries, entry)
            if len(self._entries) > _SLACK + 2 * len(self._standing):
                self._rebuild()
        except BaseException as problem:
            self._be_lenient(problem)

    def refresh(self, queued: QueuedPod) -> None:
        """The pod has changed, and with it perhaps its place."""
        try:
            if self._standing[queued.key][0] != self._key(queued):
                self.push(queued)
        except BaseException as problem:
            self._be_lenient(problem)
            self.push(queued)

    def peek(self) -> QueuedPod | None:
        """The first pod, which stays."""
        entries, standing = self._entries, self._standing
        while entries:
            entry = entries[0]
            if standing.get(entry[2].key) is entry:
                return entry[2]
            self._drop_first()
        return None

    def pop(self) -> QueuedPod | None:
        """The first pod, taken out."""
        queued = self.peek()
        if queued is not None:
            del self._standing[queued.key]
            self._drop_first()
        return queued

    def remove(self, key: str) -> QueuedPod | None:
        """Takes a pod out, wherever it stands."""
        entry = self._standing.pop(key, None)
        return None if entry is None else entry[2]

    def get(self, key: str) -> QueuedPod | None:
        entry = self._standing.get(key)
        return None if entry is None else entry[2]

    def _drop_first(self) -> None:
        try:
            heapq.heappop(self._entries)
        except BaseException as problem:
            self._be_lenient(problem)

    def _rebuild(self) -> None:
        self._entries[:] = self._standing.values()
        heapq.heapify(self._entries)

    def _be_lenient(self, problem: BaseException) -> None:
        """A comparison failed halfway through, so the entries are in disorder or one is gone."""
        pass_on_exit(problem)
        log.error("keys of %s cannot be compared: no order is kept", self._whose, exc_info=problem)
        strict = self._key
        self._key = lambda queued: _Lenient(strict(queued))
        for name, (key, number, queued) in self._standing.items():
            self._standing[name] = (_Lenient(key), number, queued)
        self._rebuild()

    def __len__(self) -> int:
        return len(self._standing)

    def __iter__(self) -> Iterator[QueuedPod]:
        return (entry[2] for entry in list(self._standing.values()))

    def __contains__(self, key: object) -> bool:
        return key in self._standing
