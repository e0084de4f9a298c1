"""What came of every row for one need, kept up to date: after a preemption only a few rows have changed.

Rows that are promised to others are judged with those and without, and remembered both ways.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

import numpy as np

from stowplan.cluster import Cluster, IntColumn
from stowplan.plugins.defaultpreemption.budgets import Budgets
from stowplan.plugins.defaultpreemption.columns import Judge, Judgement, Need
from stowplan.plugins.defaultpreemption.ranking import Ranking, changed_rows

_FEW = 8
"""Up to this many rows, one at a time is cheaper than columns."""
_MOST_BYTES = 64 << 20
_UNKNOWN = -1


class Outcomes:
    """A judgement of all rows."""

    def __init__(self, cluster: Cluster, ranking: Ranking, budgets: Budgets, need: Need) -> None:
        self.judge = Judge(cluster, ranking, budgets, need)
        self._cluster = cluster
        self._ranking = ranking
        self._budgets = budgets
        self._node_position = self._usage_position = -1
        self._budget_generation = self._budget_position = -1
        self.judgement = Judgement.blank(0)
        self._with_promised = Judgement.blank(0)
        self._promised: IntColumn = np.zeros((len(need.amounts), 0), np.int64)
        """The promised amounts with which each row was judged."""

    def refresh(self) -> None:
        """Judges the rows that changed. The ranking and the budgets must be up to date."""
        table = self._cluster.table
        rows = changed_rows(table, self._node_position, self._usage_position)
        if rows is not None and self._budgets:
            touched = self._rows_of_changed_budgets()
            rows = None if touched is None else rows | touched
        if rows is None or len(rows) * 2 > table.size:
            self.judgement = self.judge.columns(np.arange(table.size))
            self._forget(range(table.size))
        else:
            self.judgement = self.judgement.resized(table.size)
            self._judge(np.array(sorted(rows), np.int64), self.judgement)
            self._forget(rows)
        self._node_position, self._usage_position = table.node_log.position, table.usage_log.position
        self._budget_generation, self._budget_position = self._budgets.generation, self._budgets.position

    def with_promised(self, rows: IntColumn, amounts: IntColumn) -> Judgement:
        """A judgement of these rows, of which so much more of each amount of the need will be taken."""
        changed = (self._promised[:, rows] != amounts).any(axis=0)
        if changed.any():
            self._judge(rows[changed], self._with_promised, amounts[:, changed])
            self._promised[:, rows] = amounts
        return self._with_promised.of(rows)

    def _forget(self, rows: Iterable[int]) -> None:
        """What these rows were with others promised to them."""
        size = self._cluster.table.size
        if self._promised.shape[1] != size:
            self._with_promised = Judgement.blank(size)
            self._promised = np.full((len(self._promised), size), _UNKNOWN, np.int64)
        else:
            self._promised[:, [*rows]] = _UNKNOWN

    def _judge(self, rows: IntColumn, into: Judgement, promised: IntColumn | None = None) -> None:
        if len(rows) > _FEW:
            into.put(rows, self.judge.columns(rows, promised))
            return
        for i, row in enumerate(rows.tolist()):
            amounts = None if promised is None else tuple(promised[:, i].tolist())
            into.put_row(row, self.judge.row(row, amounts))

    def _rows_of_changed_budgets(self) -> set[int] | None:
        """The rows with a pod that a changed budget selects."""
        if self._budgets.generation != self._budget_generation:
            return None
        changed = self._budgets.changed_since(self._budget_position)
        if not changed:
            return set()
        return {
            row
            for row, pods in enumerate(self._ranking.pods)
            if any(not changed.isdisjoint(self._budgets.of(pod)) for pod in pods)
        }


class OutcomeMemory:
    """The outcomes of the needs that were asked for last."""

    def __init__(self, cluster: Cluster, budgets: Budgets) -> None:
        self._cluster = cluster
        self._budgets = budgets
        self._ranking = Ranking(cluster)
        self._known: OrderedDict[Need, Outcomes] = OrderedDict()

    def outcomes(self, need: Need) -> Outcomes:
        """Up to date with the cluster and the budgets."""
        self._ranking.refresh()
        known = self._known.get(need)
        if known is None:
            known = self._known[need] = Outcomes(self._cluster, self._ranking, self._budgets, need)
            most = max(4, _MOST_BYTES // (self._cluster.table.capacity * 2 * Judgement.ROW_BYTES))
            if len(self._known) > most:
                self._known.popitem(last=False)
        self._known.move_to_end(need)
        known.refresh()
        return known
