"""Topology domains: nodes divided by the value of a label, and numbers per row summed over them.

Spreading and affinity ask at every decision how much there is in each domain, while a pod that comes or
goes changes one number of one domain. So a sum, once asked for, is kept up to date by its `RowCounts`;
it is made again only when nodes change.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stowplan.cluster.columns import IntColumn, Mask, grown, read_only

if TYPE_CHECKING:
    from stowplan.cluster.cluster import Cluster

Numbers: TypeAlias = NDArray[np.intp]
_MAX_DOMAINS = 512
_MAX_SUMS = 8


class Domains:
    """The rows of all nodes by the value of one label, as the nodes were at one moment.

    Domains are numbered from 0 to `missing` - 1. The number `missing` stands for "in no domain", so that
    arrays with a number per domain have one slot more, and looking up needs no special case.
    """

    __slots__ = ("kept", "key", "labelled", "lookup", "members", "missing", "present")

    def __init__(
        self, key: str, lookup: Numbers, count: int, labelled: Mask, counted: Mask | None, kept: bool
    ) -> None:
        self.key = key
        self.lookup = lookup
        """The domain of each row."""
        self.labelled = None if labelled.all() else labelled
        """The rows that have the label; None when all have it."""
        self.missing = count
        self.members = lookup if counted is None else np.where(counted, lookup, count)
        """The domain that each row is counted in: `missing` also for rows that do not count."""
        self.kept = kept
        """Whether these domains are remembered, so that sums over them are worth remembering too."""
        occupied = np.bincount(self.members, minlength=count + 1)
        self.present = np.flatnonzero(occupied[:-1])
        """The domains with at least one row that counts."""

    def sums(self, column: IntColumn) -> IntColumn:
        """The sum of a column over each domain, and over all rows that are in none."""
        rows = len(self.members)
        # Sums of pods are far below 2^53, so floats hold them exactly.
        summed = np.bincount(self.members, weights=column[:rows], minlength=self.missing + 1)
        return summed.astype(np.int64)


class DomainIndex:
    """The domains in use, remembered until a node changes. In a trial nothing is remembered."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[Hashable, Domains] = {}
        self._position = -1

    def get(
        self,
        key: str,
        choice: Hashable = None,
        counted: Callable[[], Mask] | None = None,
        *,
        blank: bool = False,
    ) -> Domains:
        """The domains of a label. `counted` says which rows count when not all do, and `choice` names
        that rule. With `blank`, rows without the label are those whose value is ""."""
        cluster = self._cluster
        if cluster.in_trial:
            return self._make(key, counted, blank, kept=False)
        position = cluster.table.node_log.position
        if position != self._position or len(self._known) >= _MAX_DOMAINS:
            self._known.clear()
            self._position = position
        question = (key, choice, blank)
        found = self._known.get(question)
        if found is None:
            found = self._known[question] = self._make(key, counted, blank, kept=True)
        return found

    def _make(self, key: str, counted: Callable[[], Mask] | None, blank: bool, kept: bool) -> Domains:
        table = self._cluster.table
        column = table.label(key)
        ids = column.ids(table.size).astype(np.intp)
        count = len(column.values)
        labelled = ids >= 0
        instead = count
        if blank:
            instead = column.id_of("")
            if instead < 0:
                instead, count = count, count + 1
        ids[~labelled] = instead
        return Domains(key, ids, count, labelled, None if counted is None else counted(), kept)


class RowCounts:
    """A number per row that changes as pods come and go, and its sums over domains."""

    __slots__ = ("_column", "_shown", "_sums", "total")

    def __init__(self, capacity: int) -> None:
        self.total = 0
        self._column: IntColumn = np.zeros(capacity, np.int64)
        self._shown = read_only(self._column)
        self._sums: list[tuple[Domains, IntColumn]] = []

    def column(self, size: int) -> IntColumn:
        return self._shown[:size]

    def add(self, row: int, amount: int) -> None:
        self._column[row] += amount
        self.total += amount
        for domains, sums in self._sums:
            # Rows that came later are not in these domains, which are then out of date anyway.
            if row < len(domains.members):
                sums[domains.members.item(row)] += amount

    def add_all(self, rows: Mapping[int, int], factor: int = 1) -> None:
        """Adds a number to each of some rows, times a factor."""
        amounts = np.fromiter(rows.values(), np.int64, len(rows)) * factor
        self._column[np.fromiter(rows, np.intp, len(rows))] += amounts
        self.total += int(amounts.sum())
        self._sums.clear()

    def by_domain(self, domains: Domains, factor: int = 1) -> IntColumn:
        """The sum over each domain, times a factor: a copy. The slot of `domains.missing` is 0."""
        sums = self._sums_over(domains)
        copy = sums.copy() if factor == 1 else sums * factor
        copy[domains.missing] = 0
        return copy

    def _sums_over(self, domains: Domains) -> IntColumn:
        if not domains.kept:
            return domains.sums(self._column)
        for known, sums in self._sums:
            if known is domains:
                return sums
        sums = domains.sums(self._column)
        self._sums = [(domains, sums), *self._sums[: _MAX_SUMS - 1]]
        return sums

    def grow(self, capacity: int) -> None:
        self._column = grown(self._column, capacity)
        self._shown = read_only(self._column)


class DomainCounts:
    """A decision's own copy of sums over domains, to which trials add.

    Changes are kept beside the sums, so that a clone for each of thousands of trials is cheap.
    """

    __slots__ = ("_base", "_changes", "_lowest", "_total", "domains")

    def __init__(self, domains: Domains, sums: IntColumn) -> None:
        self.domains = domains
        self._total: int | None = None
        self._base = sums
        self._changes: dict[int, int] = {}
        self._lowest: tuple[int, int, int] | None = None

    def clone(self) -> DomainCounts:
        twin = DomainCounts.__new__(DomainCounts)
        twin.domains = self.domains
        twin._total = self.total
        twin._base = self._base
        twin._changes = dict(self._changes)
        twin._lowest = self._lowest
        return twin

    def add(self, row: int, amount: int) -> None:
        """Counts a change on a row, if the row is one that counts."""
        domain = self.domains.members.item(row)
        if domain != self.domains.missing:
            self._total = self.total + amount
            self._changes[domain] = self._changes.get(domain, 0) + amount

    @property
    def total(self) -> int:
        """All that is counted, in whichever domain."""
        if self._total is None:
            self._total = int(self._base.sum())
        return self._total

    def at(self, domain: int) -> int:
        number: int = self._base.item(domain)
        return number + self._changes.get(domain, 0) if self._changes else number

    def values(self) -> IntColumn:
        """The number of every domain, and 0 for the slot of no domain. Do not write into it."""
        if not self._changes:
            return self._base
        values = self._base.copy()
        for domain, amount in self._changes.items():
            values[domain] += amount
        return values

    def lowest(self) -> int | None:
        """The lowest number of a domain that has rows that count; None when there is no such domain."""
        present = self.domains.present
        if not len(present):
            return None
        if len(self._changes) > 1:
            return int(self.values()[present].min())
        if self._lowest is None:
            self._lowest = _two_lowest(self._base, present)
        where, lowest, second = self._lowest
        if not self._changes:
            return lowest
        (changed,) = self._changes
        return min(second if changed == where else lowest, self.at(changed))


def _two_lowest(numbers: IntColumn, present: Numbers) -> tuple[int, int, int]:
    """Which domain has the lowest number, that number, and the lowest of all others."""
    candidates = numbers[present]
    first = int(candidates.argmin())
    lowest = int(candidates[first])
    if len(candidates) == 1:
        return int(present[first]), lowest, np.iinfo(np.int64).max
    before, after = candidates[:first], candidates[first + 1 :]
    second = min(int(part.min()) for part in (before, after) if len(part))
    return int(present[first]), lowest, second
