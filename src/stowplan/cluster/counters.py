"""How many placed pods match a selector, per node: the columns that spreading and affinity read.

Pods are grouped by namespace and labels, so a selector is matched once per group and not once per pod,
and a counter in use is brought up to date by adding one number when a pod comes or goes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from stowplan.cluster.domains import RowCounts
from stowplan.cluster.matching import MatcherIndex, PodMatcher
from stowplan.objects import Labels, Pod

MAX_COUNTERS = 1024


class GroupKey(NamedTuple):
    """Pods that no selector can tell apart."""

    namespace: str
    labels: Labels
    terminating: bool


class PodGroup:
    """The placed pods of one key: how many on which row, and the counters that count them."""

    __slots__ = ("counters", "rows", "total")

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.total = 0
        self.counters: list[PodCounter] = []


class PodCounter(RowCounts):
    """Per row, the number of placed pods that a matcher matches."""

    __slots__ = ("matcher", "terminating_too")

    def __init__(self, matcher: PodMatcher, terminating_too: bool, capacity: int) -> None:
        super().__init__(capacity)
        self.matcher = matcher
        self.terminating_too = terminating_too

    def counts(self, key: GroupKey) -> bool:
        return (self.terminating_too or not key.terminating) and self.matcher.matches(
            key.namespace, key.labels
        )


class PodCounters:
    """All groups of placed pods and all counters in use.

    The number of counters is bounded: those not asked for in the longest time are forgotten, and made
    again from the groups when somebody asks.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._groups: dict[str, dict[GroupKey, PodGroup]] = {}
        self._counters: OrderedDict[tuple[PodMatcher, bool], PodCounter] = OrderedDict()
        self._index: MatcherIndex[PodCounter] = MatcherIndex()

    def counter(self, matcher: PodMatcher, *, terminating_too: bool = True) -> PodCounter:
        """The counter for this matcher, made from the groups when it is new."""
        question = (matcher, terminating_too)
        counter = self._counters.get(question)
        if counter is not None:
            self._counters.move_to_end(question)
            return counter
        counter = self._counters[question] = PodCounter(matcher, terminating_too, self._capacity)
        self._index.add(counter, matcher.namespaces, matcher.anchor)
        for key, group in self._groups_in(matcher.namespaces):
            if counter.counts(key):
                group.counters.append(counter)
                counter.add_all(group.rows)
        if len(self._counters) > MAX_COUNTERS:
            self._forget(self._counters.popitem(last=False)[1])
        return counter

    def add(self, pod: Pod, row: int, amount: int) -> None:
        """A pod came to a row (amount 1) or left it (-1)."""
        key = GroupKey(pod.namespace, pod.labels, pod.deleted is not None)
        groups = self._groups.setdefault(pod.namespace, {})
        group = groups.get(key)
        if group is None:
            group = groups[key] = PodGroup()
            candidates = self._index.candidates(key.namespace, key.labels)
            group.counters = [counter for counter in candidates if counter.counts(key)]
        left = group.rows.get(row, 0) + amount
        if left:
            group.rows[row] = left
        else:
            del group.rows[row]
        group.total += amount
        for counter in group.counters:
            counter.add(row, amount)
        if not group.total:
            del groups[key]
            if not groups:
                del self._groups[pod.namespace]

    def _groups_in(self, namespaces: frozenset[str] | None) -> Iterable[tuple[GroupKey, PodGroup]]:
        for namespace in self._groups if namespaces is None else namespaces:
            yield from self._groups.get(namespace, {}).items()

    def _forget(self, counter: PodCounter) -> None:
        namespaces = counter.matcher.namespaces
        self._index.remove(counter, namespaces, counter.matcher.anchor)
        for _, group in self._groups_in(namespaces):
            if counter in group.counters:
                group.counters.remove(counter)

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        for counter in self._counters.values():
            counter.grow(capacity)
