"""Judging many nodes at once, for the ordinary pod: the only thing that matters is room.

With all less important pods gone from a node, does the pod fit; and who of them can stay? The most important
one of every node is put back if there is still room, then the second of every node, and so on: as many rounds
as the fullest node has pods, each a few operations on columns. Those whose removal would break a disruption
budget go first.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan.cluster import Cluster, IntColumn, Mask
from stowplan.plugins.defaultpreemption.budgets import Budgets
from stowplan.plugins.defaultpreemption.ranking import Ranking
from stowplan.plugins.defaultpreemption.victims import OFFSET, Candidate, put_together

NOBODY_LESSER, NO_ROOM, HELPS, NOBODY_LOST = range(4)
"""What comes of a node: no pod on it is less important; not even without all of those is there room;
preemption helps; or everybody can stay, which a node that rejected the pod should not be able to say."""


class Need(NamedTuple):
    """What a pod must find free on a node, and whom it may remove for that."""

    priority: int
    amounts: tuple[tuple[int, int], ...]
    """Number of a resource in the node table, and how much of it."""


class Judgement:
    """Per row what came of it, and for those where preemption helps what decides between them."""

    __slots__ = ("_columns", "earliest")
    ROW_BYTES: ClassVar = 6 * 8

    def __init__(self, columns: IntColumn, earliest: NDArray[np.float64]) -> None:
        self._columns = columns
        self.earliest = earliest
        """When the first of the most important victims started."""

    @classmethod
    def blank(cls, size: int) -> Judgement:
        return cls(np.zeros((5, size), np.int64), np.zeros(size))

    @property
    def outcome(self) -> IntColumn:
        column: IntColumn = self._columns[0]
        return column

    @property
    def merits(self) -> IntColumn:
        """In the order in which they count, the smaller the better: budgets broken, priority of the most
        important victim, sum of priorities, number of victims."""
        return self._columns[1:]

    def resized(self, size: int) -> Judgement:
        """The same for a table that has grown or shrunk at its end."""
        if size == len(self.earliest):
            return self
        changed = Judgement.blank(size)
        kept = min(size, len(self.earliest))
        changed._columns[:, :kept] = self._columns[:, :kept]
        changed.earliest[:kept] = self.earliest[:kept]
        return changed

    def of(self, rows: IntColumn) -> Judgement:
        """A copy of some rows."""
        return Judgement(self._columns[:, rows], self.earliest[rows])

    def put(self, rows: IntColumn, judged: Judgement) -> None:
        self._columns[:, rows] = judged._columns
        self.earliest[rows] = judged.earliest

    def put_row(self, row: int, judged: Candidate | int) -> None:
        if isinstance(judged, int):
            self._columns[0, row] = judged
            return
        *merits, latest = judged.cost
        self._columns[:, row] = [HELPS, *merits]
        self.earliest[row] = -latest


class Judge:
    """Answers for one need. The ranking and the budgets must be up to date when it is asked.

    `promised` is what pods nominated to the rows will use of each amount of the need.
    """

    def __init__(self, cluster: Cluster, ranking: Ranking, budgets: Budgets, need: Need) -> None:
        self.need = need
        self._table = cluster.table
        self._ranking = ranking
        self._budgets = budgets
        self._resources = [resource for resource, _ in need.amounts]
        self._amounts_of: dict[int, tuple[int, ...]] = {}
        self._generation = -1

    # Many rows

    def columns(self, rows: IntColumn, promised: IntColumn | None = None) -> Judgement:
        ranking = self._ranking
        depth = ranking.depth(rows)
        priorities = ranking.priorities(rows, depth)
        lesser = priorities < self.need.priority
        used = [np.where(lesser, ranking.amounts(r, rows, depth), 0) for r in self._resources]
        room = []
        for i, (resource, amount) in enumerate(self.need.amounts):
            free = self._table.all_free[resource, rows] + used[i].sum(axis=0) - amount
            room.append(free if promised is None else free - promised[i])
        fits = lesser.any(axis=0)
        outcome = np.where(fits, NO_ROOM, NOBODY_LESSER)
        for free in room:
            fits = fits & (free >= 0)
        outcome[fits] = NOBODY_LOST
        lesser &= fits
        violated = self._violated(rows, lesser)
        if violated is None:
            lost = _lost(lesser, used, room)
        else:
            lost = _lost(lesser & violated, used, room)
            lost |= _lost(lesser & ~violated, used, room)
        outcome[lost.any(axis=0)] = HELPS
        return _weigh(outcome, lost, violated, priorities, ranking.starts(rows, depth))

    def freed(self, rows: IntColumn) -> IntColumn:
        """Per amount of the need and row, what all less important pods use."""
        depth = self._ranking.depth(rows)
        lesser = self._ranking.priorities(rows, depth) < self.need.priority
        amounts = [self._ranking.amounts(r, rows, depth) for r in self._resources]
        return np.array([(used * lesser).sum(axis=0) for used in amounts], np.int64)

    def _violated(self, rows: IntColumn, lesser: Mask) -> Mask | None:
        """Per slot and row whether removing the pod would break a budget; None when that happens nowhere."""
        if not self._budgets:
            return None
        flags: Mask | None = None
        for column in np.flatnonzero(lesser.any(axis=0)).tolist():
            first = int(lesser[:, column].argmax())
            pods = self._ranking.pods[rows.item(column)][first:]
            if self._budgets.protect_any(pods) and any(violated := self._budgets.violated(pods)):
                if flags is None:
                    flags = np.zeros(lesser.shape, np.bool_)
                flags[first : first + len(pods), column] = violated
        return flags

    # One row

    def row(self, row: int, promised: tuple[int, ...] | None = None) -> Candidate | int:
        """The candidate, or what came of a row that is none."""
        ranked = self._ranking.pods[row]
        priority = self.need.priority
        first = next((k for k, pod in enumerate(ranked) if pod.spec.priority < priority), None)
        if first is None:
            return NOBODY_LESSER
        lesser = ranked[first:]
        used = [self._used(number) for number in self._ranking.usages(row, first)]
        room = [self._table.all_free.item(r, row) - amount for r, amount in self.need.amounts]
        room = [free + sum(column) for free, column in zip(room, zip(*used, strict=True), strict=True)]
        if promised is not None:
            room = [free - taken for free, taken in zip(room, promised, strict=True)]
        if room and min(room) < 0:
            return NO_ROOM
        violated = self._budgets.violated(lesser) if self._budgets else [False] * len(lesser)
        protected = [k for k, flag in enumerate(violated) if flag]
        others = [k for k, flag in enumerate(violated) if not flag]
        lost = [lesser[k] for k in _reprieve(protected, used, room)]
        rest = [lesser[k] for k in _reprieve(others, used, room)]
        if not lost and not rest:
            return NOBODY_LOST
        return Candidate(row, put_together(lost, rest, both=bool(protected and others)), len(lost))

    def _used(self, number: int) -> tuple[int, ...]:
        """What a pod with this number of usage uses of each amount of the need."""
        if self._generation != self._ranking.generation:
            self._amounts_of.clear()
            self._generation = self._ranking.generation
        known = self._amounts_of.get(number)
        if known is None:
            amounts = self._ranking.amounts_of(number)
            known = tuple(amounts[r] if r < len(amounts) else 0 for r in self._resources)
            self._amounts_of[number] = known
        return known


def _lost(asked: Mask, used: list[IntColumn], room: list[IntColumn]) -> Mask:
    """Which of the pods asked about cannot stay. The room that is left shrinks by those who can."""
    lost = asked.copy()
    for k in np.flatnonzero(asked.any(axis=1)).tolist():
        stays = asked[k]
        for free, column in zip(room, used, strict=True):
            stays = stays & (column[k] <= free)
        for free, column in zip(room, used, strict=True):
            free -= column[k] * stays
        lost[k] ^= stays
    return lost


def _reprieve(asked: list[int], used: list[tuple[int, ...]], room: list[int]) -> list[int]:
    """The same for one row: the positions of those who cannot stay."""
    lost = []
    for k in asked:
        amounts = used[k]
        for amount, free in zip(amounts, room, strict=True):
            if amount > free:
                lost.append(k)
                break
        else:
            for i, amount in enumerate(amounts):
                room[i] -= amount
    return lost


def _weigh(
    outcome: IntColumn,
    lost: Mask,
    violated: Mask | None,
    priorities: IntColumn,
    starts: NDArray[np.float64],
) -> Judgement:
    judged = Judgement.blank(len(outcome))
    judged.outcome[:] = outcome
    if len(lost):
        highest = priorities[lost.argmax(axis=0), np.arange(len(outcome))]
        violations, highest_priority, total, count = judged.merits
        if violated is not None:
            violations[:] = (lost & violated).sum(axis=0)
        highest_priority[:] = highest
        total[:] = np.where(lost, priorities + OFFSET, 0).sum(axis=0)
        count[:] = lost.sum(axis=0)
        judged.earliest[:] = np.where(lost & (priorities == highest), starts, np.inf).min(axis=0)
    return judged
