"""The columns that scoring needs of several resources at once, stacked: a row per resource."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan.cluster import Cluster, IntColumn, Mask, Nodes

FloatColumn = NDArray[np.float64]

_EXACT = 2**46
"""Percentages of capacities up to this are exact in floats: 100 times the part is below 2**53, so it and
the quotient's only rounding are exact enough that a quotient below a whole number, by 1/capacity at
least, never becomes that number."""


class Offered(NamedTuple):
    """What nodes offer, in the forms that scoring divides by."""

    whole: IntColumn
    divisor: FloatColumn
    """The same as floats; 1 where a node offers nothing, so that dividing by it does no harm."""
    missing: Mask | None
    """Where a node offers nothing; None when all offer something."""
    exact: bool
    """Whether percentages may be worked out in floats."""

    def of(self, nodes: Nodes) -> Offered:
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
    """The same resources of all nodes: used (rows `used` of the usage table) and offered."""

    def __init__(self, cluster: Cluster, used: Sequence[int], offered: Sequence[int]) -> None:
        self._cluster = cluster
        self.used_numbers = tuple(used)
        self.offered_numbers = tuple(offered)
        self._used_rows = _as_index(used)
        self._offered_rows = _as_index(offered)
        self._offered: Offered | None = None
        self._position = -1

    def used(self, nodes: Nodes) -> IntColumn:
        usage = nodes.table.all_usage[self._used_rows, : nodes.table.size]
        return usage if nodes.everything else usage[:, nodes.rows]

    def offered(self, nodes: Nodes) -> Offered:
        """Worked out anew only when some node changed."""
        table = self._cluster.table
        if self._offered is None or self._position != table.node_log.position:
            whole = table.all_allocatable[self._offered_rows, : table.size].copy()
            lacking = whole == 0
            missing = lacking if lacking.any() else None
            divisor = np.where(lacking, 1.0, whole)
            self._offered = Offered(whole, divisor, missing, int(whole.max(initial=0)) <= _EXACT)
            self._position = table.node_log.position
        return self._offered.of(nodes)


def _as_index(numbers: Sequence[int]) -> slice | list[int]:
    """Neighbouring rows as a slice: then taking them copies nothing."""
    first = numbers[0] if numbers else 0
    if list(numbers) == list(range(first, first + len(numbers))):
        return slice(first, first + len(numbers))
    return list(numbers)
