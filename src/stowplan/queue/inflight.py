"""What happened while pods were being decided.

A pod is rejected for what the cluster was when its cycle began. If something changed since, the pod may
fit by now, and nobody would tell it again: so events are kept from the moment the first pod was taken out
of the queue until the last such pod came back.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

from stowplan.framework.events import ClusterEvent

POPPED = "PodPopped"
"""What kube-scheduler calls the entry of the pod itself."""


class Happened(NamedTuple):
    """An event with the object before and after."""

    event: ClusterEvent
    old: Any
    new: Any


class InFlight:
    """Pods that are being decided, and the events since the oldest of them was taken out."""

    def __init__(self) -> None:
        # Not a plain dict: the first of its entries is looked for whenever a pod is done.
        self._since: OrderedDict[str, int] = OrderedDict()
        self._events: list[Happened] = []
        self._dropped = 0

    def start(self, uid: str) -> bool:
        """A pod was taken out of the queue; False when it is being decided already."""
        if uid in self._since:
            return False
        self._since[uid] = self._dropped + len(self._events)
        return True

    def record(self, event: ClusterEvent, old: Any, new: Any) -> None:
        """Something happened. Kept only while some pod is being decided."""
        if self._since:
            self._events.append(Happened(event, old, new))

    def events_for(self, uid: str) -> Sequence[Happened]:
        """What happened since the pod was taken out."""
        since = self._since.get(uid)
        return () if since is None else self._events[since - self._dropped :]

    def done(self, uid: str) -> None:
        """The pod came back, or will not. Events that no pod needs any more are dropped."""
        if self._since.pop(uid, None) is None:
            return
        first = next(iter(self._since.values()), self._dropped + len(self._events))
        if first > self._dropped:
            del self._events[: first - self._dropped]
            self._dropped = first

    def __contains__(self, uid: object) -> bool:
        return uid in self._since

    def __len__(self) -> int:
        return len(self._since)

    def counts(self) -> dict[str, int]:
        """How many entries are kept, by what they are."""
        return {POPPED: len(self._since), **Counter(happened.event.label for happened in self._events)}

    @property
    def event_count(self) -> int:
        return len(self._events)
