"""The columns that scoring needs of several resources at once, stacked: a row per resource.

They are kept as floats where floats are exact, beside the node table's whole numbers, and worked on in
place: fresh memory for every step of every pod would cost more than the steps themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stowplan.cluster import Cluster, IntColumn, Mask, NodeRow, Nodes

FloatColumn: TypeAlias = NDArray[np.float64]
Column: TypeAlias = FloatColumn | IntColumn

EXACT = 2**46
"""Percentages of capacities up to this are exact in floats: 100 times the part is below 2**53, so it and
the quotient's only rounding are exact enough that a quotient below a whole number, by 1/capacity at
least, never becomes that number. Requests beyond 2**53 may be rounded, but are more than there is anyway."""
_FEW = 8
"""Up to this many changed rows are worked out one by one."""


class Offered(NamedTuple):
    """What nodes offer, in the forms that scoring needs."""

    amounts: Column
    """In floats where percentages are exact in floats."""
    divisor: FloatColumn
    """The same, but 1 where a node offers nothing, so that dividing by it does no harm."""
    missing: Mask | None
    """Where a node offers nothing; None when all offer something."""

    @classmethod
    def made_of(cls, amounts: IntColumn) -> Offered:
        """All forms of these amounts."""
        lacking = amounts == 0
        missing = lacking if lacking.any() else None
        divisor = np.where(lacking, 1.0, amounts)
        if int(amounts.max(initial=0)) > EXACT:
            return cls(amounts, divisor, missing)
        return cls(divisor if missing is None else amounts.astype(np.float64), divisor, missing)

    @property
    def exact(self) -> bool:
        """Whether percentages may be worked out in floats."""
        return self.amounts.dtype == np.float64

    def form(self, amounts: IntColumn) -> Column:
        """A copy of other amounts in the form of what is offered."""
        return amounts.astype(np.float64) if self.exact else amounts.copy()

    def of(self, nodes: Nodes) -> Offered:
        """The part of the whole table that is about these nodes."""
        if nodes.everything:
            return self
        rows = nodes.rows
        missing = None if self.missing is None else self.missing[:, rows]
        return Offered(self.amounts[:, rows], self.divisor[:, rows], missing)

    def percent(self, part: Column) -> Column:
        """`part` of what is offered in percent, rounded down; it must not be negative or more than that, and
        is overwritten."""
        part *= 100
        if self.exact:
            part /= self.divisor
            return np.floor(part, out=part)
        part //= np.maximum(self.amounts, 1)
        return part


class Load(NamedTuple):
    """What nodes offer, and how much of it is requested."""

    requested: Column
    """No more than is offered, in the same form, and to be worked on in place."""
    offered: Offered

    @classmethod
    def made_of(cls, requested: Column, offered: Offered) -> Load:
        """From all that is requested, which is overwritten."""
        return cls(np.minimum(requested, offered.amounts, out=requested), offered)


class ResourceStack:
    """What all nodes use and offer of some resources: columns of the usage and the allocatable table."""

    def __init__(
        self, cluster: Cluster, used: Sequence[int], offered: Sequence[int], weights: Sequence[int]
    ) -> None:
        self.places = tuple(zip(used, offered, weights, strict=True))
        """Per resource: its column in the usage table, in the allocatable table, and its weight."""
        self.weights = tuple(weights)
        self._cluster = cluster
        self._used_rows = _as_index(used)
        self._offered_rows = _as_index(offered)
        self._offered: Offered | None = None
        self._position = -1
        self._changes = Changes(cluster)
        self._used: Column = np.zeros((0, 0))
        self._scratch: Column = np.zeros((0, 0))

    def used(self, nodes: Nodes) -> IntColumn:
        """As it is now: a view of the usage table, not to be kept."""
        usage = nodes.table.all_usage[self._used_rows, : nodes.table.size]
        return usage if nodes.everything else usage[:, nodes.rows]

    def loaded(self, amounts: IntColumn, nodes: Nodes) -> Load:
        """With these amounts on top of what is used now. Good until the next call."""
        offered = self.offered(nodes)
        if self._cluster.in_trial or not nodes.everything:
            return Load.made_of(offered.form(self.used(nodes) + amounts), offered)
        self._follow(offered)
        return Load.made_of(np.add(self._used, offered.form(amounts), out=self._scratch), offered)

    def allocatable(self, nodes: Nodes) -> IntColumn:
        """A view of the allocatable table."""
        offered = nodes.table.all_allocatable[self._offered_rows, : nodes.table.size]
        return offered if nodes.everything else offered[:, nodes.rows]

    def offered(self, nodes: Nodes) -> Offered:
        """Worked out anew only when some node changed."""
        position = self._cluster.table.node_log.position
        if self._offered is None or self._position != position:
            self._offered = Offered.made_of(self.allocatable(self._cluster.nodes).copy())
            self._position = position
        return self._offered.of(nodes)

    def _follow(self, offered: Offered) -> None:
        """Brings what is kept of usage up to date."""
        rows = self._changes.since_last()
        if rows is None:
            self._used = offered.form(self.used(self._cluster.nodes))
            self._scratch = np.empty_like(self._used)
        else:
            usage = self._cluster.table.all_usage
            for row in rows:
                self._used[:, row] = usage[self._used_rows, row]


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
        self._changes = Changes(cluster)

    def of(self, nodes: Nodes) -> IntColumn:
        """The column for these nodes. The changes of a trial are in no log, so nothing is kept then."""
        if self._cluster.in_trial or not nodes.everything:
            return self._many(nodes)
        rows = self._changes.since_last()
        if rows is None:
            self._column = self._many(nodes)
        else:
            for row in rows:
                self._column[row] = self._one(NodeRow(self._cluster, row))
        return self._column


class Changes:
    """Tells which rows changed, to one who keeps something of every row."""

    def __init__(self, cluster: Cluster) -> None:
        self._table = cluster.table
        self._node_position = -1
        self._usage_position = -1

    def since_last(self) -> set[int] | None:
        """The rows where pods came or went since the last call; None when that is so many, or a node
        changed, that it is best to look at all rows."""
        nodes, usage = self._table.node_log, self._table.usage_log
        known = usage.since(self._usage_position) if nodes.position == self._node_position else None
        self._node_position, self._usage_position = nodes.position, usage.position
        return None if known is None or len(known) > _FEW else set(known)


def _as_index(numbers: Sequence[int]) -> slice | list[int]:
    """Neighbouring rows as a slice: then taking them copies nothing."""
    first = numbers[0] if numbers else 0
    if list(numbers) == list(range(first, first + len(numbers))):
        return slice(first, first + len(numbers))
    return list(numbers)
