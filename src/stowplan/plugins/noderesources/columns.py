"""The columns that scoring needs of several resources at once, stacked: a row per resource."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan.cluster import Cluster, IntColumn, Mask, NodeRow, Nodes

FloatColumn = NDArray[np.float64]

_EXACT = 2**46
"""Percentages of capacities up to this are exact in floats: 100 times the part is below 2**53, so it and
the quotient's only rounding are exact enough that a quotient below a whole number, by 1/capacity at
least, never becomes that number."""
_FEW = 8
"""Up to this many changed rows are worked out one by one."""


class Offered(NamedTuple):
    """What nodes offer, in the forms that scoring divides by."""

    whole: IntColumn
    divisor: FloatColumn
    """The same as floats; 1 where a node offers nothing, so that dividing by it does no harm."""
    missing: Mask | None
    """Where a node offers nothing; None when all offer something."""
    exact: bool
    """Whether percentages may be worked out in floats."""

    @classmethod
    def made_of(cls, whole: IntColumn) -> Offered:
        """All forms of these amounts."""
        lacking = whole == 0
        missing = lacking if lacking.any() else None
        return cls(whole, np.where(lacking, 1.0, whole), missing, int(whole.max(initial=0)) <= _EXACT)

    def of(self, nodes: Nodes) -> Offered:
        """The part of the whole table that is about these nodes."""
        if nodes.everything:
            return self
        rows = nodes.rows
        missing = None if self.missing is None else self.missing[:, rows]
        return Offered(self.whole[:, rows], self.divisor[:, rows], missing, self.exact)

    def percent(self, part: IntColumn) -> IntColumn:
        """`part` of what is offered in percent, rounded down; it must not be negative or more than that."""
        if self.exact:
            return (part * 100.0 / self.divisor).astype(np.int64)
        return part * 100 // np.maximum(self.whole, 1)


class ResourceStack:
    """What all nodes use and offer of some resources: columns of the usage and the allocatable table."""

    def __init__(
        self, cluster: Cluster, used: Sequence[int], offered: Sequence[int], weights: Sequence[int]
    ) -> None:
        self._cluster = cluster
        self.weights: IntColumn = np.array(weights, np.int64)[:, None]
        self._used_rows = _as_index(used)
        self._offered_rows = _as_index(offered)
        self._offered: Offered | None = None
        self._position = -1

    def used(self, nodes: Nodes) -> IntColumn:
        """As it is now: a view of the usage table, not to be kept."""
        usage = nodes.table.all_usage[self._used_rows, : nodes.table.size]
        return usage if nodes.everything else usage[:, nodes.rows]

    def offered(self, nodes: Nodes) -> Offered:
        """Worked out anew only when some node changed."""
        table = self._cluster.table
        if self._offered is None or self._position != table.node_log.position:
            self._offered = Offered.made_of(table.all_allocatable[self._offered_rows, : table.size].copy())
            self._position = table.node_log.position
        return self._offered.of(nodes)


class KeptColumn:
    """A column that follows from each row's node and usage alone, whatever the pod: worked out once, and
    again for rows that changed."""

    def __init__(
        self, cluster: Cluster, one: Callable[[NodeRow], int], many: Callable[[Nodes], IntColumn]
    ) -> None:
        self._cluster = cluster
        self._one = one
        self._many = many
        self._column: IntColumn = np.zeros(0, np.int64)
        self._node_position = -1
        self._usage_position = -1

    def of(self, nodes: Nodes) -> IntColumn:
        """The column for these nodes. The changes of a trial are in no log, so nothing is kept then."""
        if self._cluster.in_trial or not nodes.everything:
            return self._many(nodes)
        table = self._cluster.table
        rows = table.usage_log.since(self._usage_position)
        if rows is None or len(rows) > _FEW or self._node_position != table.node_log.position:
            self._column = self._many(nodes)
        else:
            for row in set(rows):
                self._column[row] = self._one(NodeRow(self._cluster, row))
        self._usage_position = table.usage_log.position
        self._node_position = table.node_log.position
        return self._column


def _as_index(numbers: Sequence[int]) -> slice | list[int]:
    """Neighbouring rows as a slice: then taking them copies nothing."""
    first = numbers[0] if numbers else 0
    if list(numbers) == list(range(first, first + len(numbers))):
        return slice(first, first + len(numbers))
    return list(numbers)
