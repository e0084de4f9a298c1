"""What nominated pods will use on the nodes they are promised, as columns.

Every decision has to count the pods that are nominated to nodes, and while many pods are preempted there are
hundreds of them. Their sums are kept, and only those of nodes where a nomination changed are made anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from stowplan.cluster.columns import IntColumn
from stowplan.cluster.nodetable import NodeTable
from stowplan.cluster.nominations import Nominations
from stowplan.objects import Pod

_MOST_PRIORITIES = 16


class Promised(NamedTuple):
    """Rows with pods nominated to them, in order; by resource (first axis) and row what those will use."""

    rows: IntColumn
    usage: IntColumn


class _Level:
    """What counts for pods of one priority, for all rows."""

    def __init__(self, table: NodeTable, nominations: Nominations, priority: int) -> None:
        self._table = table
        self._nominations = nominations
        self._priority = priority
        self._position = self._node_position = -1
        self._counting: IntColumn = np.zeros(0, np.int64)
        """How many nominated pods count on a row."""
        self._usage: IntColumn = np.zeros((0, 0), np.int64)

    def against(self, pod: Pod) -> Promised:
        """What counts for this pod, which does not count for itself."""
        self._refresh()
        own = self._nominations.node_of(pod.uid)
        if own is None:
            return self._promised()
        self._add_up(own, self._nominations.counting_against(pod, own))
        promised = self._promised()
        self._add_up(own, self._nominations.on(own))
        return promised

    def _promised(self) -> Promised:
        rows = np.flatnonzero(self._counting)
        return Promised(rows, self._usage[:, rows])

    def _refresh(self) -> None:
        table, log = self._table, self._nominations.log
        changed = log.since(self._position) if self._position >= 0 else None
        if changed is None or self._node_position != table.node_log.position:
            self._counting = np.zeros(table.capacity, np.int64)
            self._usage = np.zeros((len(table.resources), table.capacity), np.int64)
            changed = list(self._nominations.nodes())
        for name in set(changed):
            self._add_up(name, self._nominations.on(name))
        self._position, self._node_position = log.position, table.node_log.position

    def _add_up(self, node_name: str, pods: Iterable[Pod]) -> None:
        row = self._table.rows.get(node_name)
        if row is None:
            return
        counting = [self._table.usage_of(pod) for pod in pods if pod.spec.priority >= self._priority]
        self._counting[row] = len(counting)
        self._usage[:, row] = 0
        for usage in counting:
            self._widen(len(usage))
            self._usage[: len(usage), row] += usage

    def _widen(self, width: int) -> None:
        missing = width - len(self._usage)
        if missing > 0:
            self._usage = np.vstack([self._usage, np.zeros((missing, self._usage.shape[1]), np.int64)])


class PromisedRoom:
    """Answers for the pods nominated to all nodes."""

    def __init__(self, table: NodeTable, nominations: Nominations) -> None:
        self._table = table
        self._nominations = nominations
        self._levels: dict[int, _Level] = {}

    def counting_against(self, pod: Pod) -> Promised:
        """What a decision about this pod must count, on all rows but where nothing counts."""
        priority = pod.spec.priority
        level = self._levels.get(priority)
        if level is None:
            if len(self._levels) >= _MOST_PRIORITIES:
                self._levels.clear()
            level = self._levels[priority] = _Level(self._table, self._nominations, priority)
        return level.against(pod)
