"""The remembered answers of all plugins for one shape, merged into two columns. The hot path.

`rejected_by` says for every row which filter rejects it first (0: none), `ranked` what the row scores, -1
where it is rejected. Most often one pod was placed since the last time, so one row changed, and only the
answers that depend on what is placed have to be asked and merged again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from stowplan.cluster import Cluster, IntColumn, NodeRow
from stowplan.framework.memory import FilterMemory, RowMemory, ScoreMemory

_FEW = 6
"""Up to this many changed rows are merged one by one."""

NumberedColumn: TypeAlias = tuple[int, IntColumn]
"""A filter's number and codes, or the weight of a score and the scores."""


class NodeColumns:
    """The part that comes from what the nodes are, whatever is placed on them: shared by all shapes that
    ask the same of nodes."""

    def __init__(
        self,
        cluster: Cluster,
        filters: Sequence[tuple[int, FilterMemory]],
        scores: Sequence[tuple[int, ScoreMemory]],
    ) -> None:
        self._cluster = cluster
        self._filters = filters
        self._scores = scores
        self._position = -1
        self.rejected_by: IntColumn = np.zeros(0, np.int64)
        self.codes: IntColumn = np.zeros(0, np.int64)
        self.scores: IntColumn = np.zeros(0, np.int64)

    def refresh(self) -> None:
        table = self._cluster.table
        if self._position == table.node_log.position:
            return
        for _, memory in (*self._filters, *self._scores):
            memory.refresh()
        self.rejected_by = np.zeros(table.size, np.int64)
        self.codes = np.zeros(table.size, np.int64)
        _overlay(self.rejected_by, self.codes, columns_of(self._filters))
        self.scores = np.zeros(table.size, np.int64)
        _add(self.scores, columns_of(self._scores))
        self._position = table.node_log.position


class Columns:
    """What all filters and scores say of every row.

    Scores that must be normalised over the nodes that can take the pod are not part of `ranked`.
    """

    def __init__(self, cluster: Cluster, nodes: NodeColumns) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self._codes: IntColumn = np.zeros(0, np.int64)
        self.rejected_by: IntColumn = np.zeros(0, np.int64)
        self.ranked: IntColumn = np.zeros(0, np.int64)
        self.feasible = 0
        """How many rows no filter rejects."""
        self.version = 0
        """Grows whenever a row is rejected by another filter, by none any more, or for another reason."""

    def refresh(self) -> None:
        """Brings the columns up to date with the cluster."""
        raise NotImplementedError

    def _merge(self, filters: Iterable[NumberedColumn], scores: Iterable[NumberedColumn]) -> None:
        """Lays these over what nodes alone say: filters by their numbers (from 1, in the order of the
        profile) and scores with their weights."""
        self._nodes.refresh()
        self.rejected_by = self._nodes.rejected_by.copy()
        self._codes = self._nodes.codes.copy()
        _overlay(self.rejected_by, self._codes, filters)
        self.ranked = self._nodes.scores.copy()
        _add(self.ranked, scores)
        rejected = self.rejected_by.nonzero()[0]
        self.ranked[rejected] = -1
        self.feasible = len(self.ranked) - rejected.size
        self.version += 1


class MergedColumns(Columns):
    """From remembered answers."""

    def __init__(
        self,
        cluster: Cluster,
        nodes: NodeColumns,
        filters: Sequence[tuple[int, FilterMemory]],
        scores: Sequence[tuple[int, ScoreMemory]],
        also_kept: Sequence[RowMemory] = (),
    ) -> None:
        """`filters` and `scores` are those that depend on usage; `also_kept` are memories that are to be
        kept up to date beside them."""
        super().__init__(cluster, nodes)
        self._filters = filters
        self._scores = scores
        self._memories: list[RowMemory] = [memory for _, memory in (*filters, *scores)]
        self._memories += also_kept
        self._usage_memories = [memory for memory in self._memories if memory.reads_usage]
        self._node_position = -1
        self._usage_position = -1
        self._generation = -1

    def refresh(self) -> None:
        table = self._cluster.table
        until = table.usage_log.position
        if table.node_log.position == self._node_position:
            if until == self._usage_position:
                return
            rows = table.usage_log.since(self._usage_position)
            if rows is not None and len(rows) <= _FEW:
                self._refresh_rows(rows, until)
                return
        for memory in self._memories:
            memory.refresh()
        self._merge_all()
        self._node_position, self._usage_position = table.node_log.position, until

    def _refresh_rows(self, rows: list[int], until: int) -> None:
        changed = [NodeRow(self._cluster, row) for row in dict.fromkeys(rows)]
        for memory in self._usage_memories:
            memory.catch_up(changed, self._usage_position, until)
        if self._generation != self._memories_generation():
            self._merge_all()
        else:
            for node in changed:
                self._merge_one(node.row)
        self._usage_position = until

    def _memories_generation(self) -> int:
        return sum([memory.generation for memory in self._usage_memories])

    def _merge_all(self) -> None:
        self._merge(columns_of(self._filters), columns_of(self._scores))
        self._generation = self._memories_generation()

    def _merge_one(self, row: int) -> None:
        by, code = self._nodes.rejected_by.item(row), self._nodes.codes.item(row)
        for number, memory in self._filters:
            if by and by < number:
                break
            rejection = memory.item(row)
            if rejection:
                by, code = number, rejection
                break
        before = self.rejected_by.item(row)
        if by != before or code != self._codes.item(row):
            self.rejected_by[row] = by
            self._codes[row] = code
            self.feasible += (by == 0) - (before == 0)
            self.version += 1
        if by:
            self.ranked[row] = -1
            return
        total = self._nodes.scores.item(row)
        for weight, scores in self._scores:
            total += scores.item(row) * weight
        self.ranked[row] = total


def columns_of(memories: Iterable[tuple[int, RowMemory]]) -> list[NumberedColumn]:
    """What is remembered, with the numbers of filters or the weights of scores."""
    return [(number, memory.column) for number, memory in memories]


def _overlay(rejected_by: IntColumn, codes: IntColumn, filters: Iterable[NumberedColumn]) -> None:
    """Notes where these filters reject a row before those that are noted already."""
    for number, column in filters:
        rows = column.nonzero()[0]
        if rows.size:
            noted = rejected_by[rows]
            rows = rows[(noted == 0) | (noted > number)]
            rejected_by[rows] = number
            codes[rows] = column[rows]


def _add(total: IntColumn, scores: Iterable[NumberedColumn]) -> None:
    for weight, column in scores:
        total += column if weight == 1 else column * weight
