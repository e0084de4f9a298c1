"""How many placed pods match a selector, per node: the columns that spreading and affinity read.

Pods are grouped by namespace and labels, so a selector is matched once per group and not once per pod,
and a counter in use is brought up to date by adding one number when a pod comes or goes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple, Protocol

import numpy as np

from stowplan.cluster.columns import IntColumn, grown
from stowplan.objects import Labels, Pod

_MAX_COUNTERS = 1024


class PodMatcher(Protocol):
    """Which pods a counter counts: hashable, so that equal questions share one column."""

    def matches(self, namespace: str, labels: Labels) -> bool: ...
    def __hash__(self) -> int: ...


class GroupKey(NamedTuple):
    """Pods that no selector can tell apart."""

    namespace: str
    labels: Labels
    terminating: bool


class PodGroup:
    """The placed pods of one key: how many on which row, and the counters that count them."""

    __slots__ = ("counters", "key", "rows", "total")

    def __init__(self, key: GroupKey) -> None:
        self.key = key
        self.rows: dict[int, int] = {}
        self.total = 0
        self.counters: list[PodCounter] = []


class PodCounter:
    """Per row, the number of placed pods that a matcher matches."""

    __slots__ = ("_column", "matcher", "terminating_too", "total")

    def __init__(self, matcher: PodMatcher, terminating_too: bool, capacity: int) -> None:
        self.matcher = matcher
        self.terminating_too = terminating_too
        self.total = 0
        self._column: IntColumn = np.zeros(capacity, np.int64)

    def column(self, size: int) -> IntColumn:
        return self._column[:size]

    def counts(self, key: GroupKey) -> bool:
        return (self.terminating_too or not key.terminating) and self.matcher.matches(
            key.namespace, key.labels
        )

    def add(self, row: int, amount: int) -> None:
        self._column[row] += amount
        self.total += amount

    def grow(self, capacity: int) -> None:
        self._column = grown(self._column, capacity)  # type: ignore[assignment]


class PodCounters:
    """All groups of placed pods and all counters in use.

    The number of counters is bounded: those not asked for in the longest time are forgotten, and made
    again from the groups when somebody asks.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._groups: dict[GroupKey, PodGroup] = {}
        self._counters: OrderedDict[Hashable, PodCounter] = OrderedDict()

    def counter(self, matcher: PodMatcher, *, terminating_too: bool = True) -> PodCounter:
        """The counter for this matcher, made from the groups when it is new."""
        key = (matcher, terminating_too)
        counter = self._counters.get(key)
        if counter is not None:
            self._counters.move_to_end(key)
            return counter
        counter = self._counters[key] = PodCounter(matcher, terminating_too, self._capacity)
        for group in self._groups.values():
            if counter.counts(group.key):
                group.counters.append(counter)
                for row, amount in group.rows.items():
                    counter.add(row, amount)
        if len(self._counters) > _MAX_COUNTERS:
            self._forget(self._counters.popitem(last=False)[1])
        return counter

    def add(self, pod: Pod, row: int, amount: int) -> None:
        """A pod came to a row (amount 1) or left it (-1)."""
        key = GroupKey(pod.namespace, pod.labels, pod.deleted is not None)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = self._new_group(key)
        left = group.rows.get(row, 0) + amount
        if left:
            group.rows[row] = left
        else:
            del group.rows[row]
        group.total += amount
        for counter in group.counters:
            counter.add(row, amount)
        if not group.total:
            del self._groups[key]

    def _new_group(self, key: GroupKey) -> PodGroup:
        group = PodGroup(key)
        group.counters = [counter for counter in self._counters.values() if counter.counts(key)]
        return group

    def _forget(self, counter: PodCounter) -> None:
        for group in self._groups.values():
            if counter in group.counters:
                group.counters.remove(counter)

    def matchers_changed(self) -> None:
        """What a matcher answers may have changed (a namespace's labels did): count everything again."""
        self._counters.clear()
        for group in self._groups.values():
            group.counters.clear()

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        for counter in self._counters.values():
            counter.grow(capacity)
