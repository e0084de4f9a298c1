"""What nominated pods will use on the nodes they are promised, as columns.

Every decision has to count the pods that are nominated to nodes, and while many pods are preempted there are
hundreds of them. Their sums are kept, and only those of nodes where a nomination changed are made anew.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stowplan.cluster.columns import IntColumn
from stowplan.cluster.nodetable import NodeTable
from stowplan.cluster.nominations import Nominations
from stowplan.objects import Pod

_MOST_PRIORITIES = 16


class Promised(NamedTuple):
    """Nodes with pods nominated to them, and per node (first axis) and resource what those will use."""

    names: tuple[str, ...]
    usage: IntColumn


class _Level(NamedTuple):
    """What counts for pods of one priority."""

    version: int
    sums: dict[str, tuple[int, IntColumn | None]]
    """By node: when its nominations last changed, and what counting pods will use; None without any."""
    promised: Promised


class PromisedRoom:
    """Answers for the pods nominated to all nodes."""

    def __init__(self, table: NodeTable, nominations: Nominations) -> None:
        self._table = table
        self._nominations = nominations
        self._levels: dict[int, _Level] = {}

    def counting_against(self, pod: Pod) -> Promised:
        """What a decision about this pod must count, on all nodes but where nothing counts."""
        promised = self._level(pod.spec.priority).promised
        own = self._nominations.node_of(pod.uid)
        if own is None or own not in promised.names:
            return promised
        place = promised.names.index(own)
        others = self._sum(self._nominations.counting_against(pod, own))
        if others is None:
            names = promised.names[:place] + promised.names[place + 1 :]
            return Promised(names, np.delete(promised.usage, place, axis=0))
        usage = promised.usage.copy()
        usage[place] = 0
        usage[place, : len(others)] = others
        return Promised(promised.names, usage)

    def _level(self, priority: int) -> _Level:
        nominations = self._nominations
        known = self._levels.get(priority)
        if known is not None and known.version == nominations.version:
            return known
        if known is None and len(self._levels) >= _MOST_PRIORITIES:
            self._levels.clear()
        before = {} if known is None else known.sums
        sums: dict[str, tuple[int, IntColumn | None]] = {}
        for name in nominations.nodes():
            changed, found = nominations.changed(name), before.get(name)
            if found is None or found[0] != changed:
                others = [pod for pod in nominations.on(name) if pod.spec.priority >= priority]
                found = changed, self._sum(others)
            sums[name] = found
        level = self._levels[priority] = _Level(nominations.version, sums, _side_by_side(sums))
        return level

    def _sum(self, pods: list[Pod]) -> IntColumn | None:
        if not pods:
            return None
        usages = [self._table.usage_of(pod) for pod in pods]
        total = np.zeros(max(map(len, usages)), np.int64)
        for usage in usages:
            total[: len(usage)] += usage
        return total


def _side_by_side(sums: dict[str, tuple[int, IntColumn | None]]) -> Promised:
    counting = {name: total for name, (_, total) in sums.items() if total is not None}
    usage = np.zeros((len(counting), max(map(len, counting.values()), default=0)), np.int64)
    for place, total in enumerate(counting.values()):
        usage[place, : len(total)] = total
    return Promised(tuple(counting), usage)
