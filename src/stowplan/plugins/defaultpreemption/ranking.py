"""The placed pods of every node, most important first, as columns: slot k of all nodes side by side."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.cluster import Cluster, IntColumn
from stowplan.cluster.columns import ScalarT, grown
from stowplan.cluster.nodetable import NodeTable
from stowplan.objects import Pod, PodSpec
from stowplan.objects.requests import uses_what_it_declares
from stowplan.plugins.defaultpreemption.victims import by_importance, start_of

NOBODY = 2**40
"""The priority in an empty slot: above every real one, so that nobody may preempt nobody."""

_MIN_DEPTH = 8
_FEW_USAGES = 4096


class Ranking:
    """Brought up to date on request, row by changed row.

    What a pod uses is kept as a number of a distinct list of amounts: most pods come from a few templates,
    and a number per slot is little to store and quick to gather.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.pods: list[list[Pod]] = []
        """Per row, most important first."""
        self.generation = 0
        """Grows when the numbers of usages are given anew."""
        self._start_over()

    def _start_over(self) -> None:
        capacity = self._cluster.table.capacity
        self._node_position = self._usage_position = -1
        self._usages = np.zeros((_MIN_DEPTH, capacity), np.int32)
        self._priorities: IntColumn = np.full((_MIN_DEPTH, capacity), NOBODY, np.int64)
        self._starts = np.zeros((_MIN_DEPTH, capacity), np.float64)
        self._depths: IntColumn = np.zeros(capacity, np.int64)
        self._amounts: IntColumn = np.zeros((1, 1), np.int64)
        self._amount_rows: list[tuple[int, ...]] = [()]
        self._numbers: dict[tuple[int, ...], int] = {(): 0}
        self._number_of: dict[PodSpec, int] = {}
        self.pods.clear()
        self.generation += 1

    # Reading

    def depth(self, rows: IntColumn) -> int:
        """How many slots are taken on the fullest of these rows."""
        return int(self._depths[rows].max(initial=0))

    def priorities(self, rows: IntColumn, depth: int) -> IntColumn:
        """Per slot and row; NOBODY where the slot is empty."""
        return self._priorities[:depth, rows]

    def starts(self, rows: IntColumn, depth: int) -> NDArray[np.float64]:
        """Per slot and row, when the pod started."""
        return self._starts[:depth, rows]

    def amounts(self, resource: int, rows: IntColumn, depth: int) -> IntColumn:
        """Per slot and row, what the pod uses of a resource (by its number in the node table)."""
        column = self._amount_column(resource)
        return column[self._usages[:depth, rows]]

    def usages(self, row: int, first: int) -> list[int]:
        """The numbers of what the pods of a row use, from slot `first` on."""
        numbers: list[int] = self._usages[first : len(self.pods[row]), row].tolist()
        return numbers

    def amounts_of(self, number: int) -> tuple[int, ...]:
        """What a number of usage stands for: an amount per resource of the node table."""
        return self._amount_rows[number]

    def _amount_column(self, resource: int) -> IntColumn:
        if len(self._amounts) != len(self._amount_rows) or resource >= self._amounts.shape[1]:
            width = max(resource + 1, *map(len, self._amount_rows))
            self._amounts = np.zeros((len(self._amount_rows), width), np.int64)
            for number, amounts in enumerate(self._amount_rows):
                self._amounts[number, : len(amounts)] = amounts
        return self._amounts[:, resource]

    # Keeping up

    def refresh(self) -> None:
        """Sorts the pods of the rows that changed."""
        table = self._cluster.table
        if table.capacity != self._usages.shape[1]:
            self._widen(table.capacity)
        rows = changed_rows(table, self._node_position, self._usage_position)
        if rows is None or self._too_many_usages():
            self._start_over()
            rows = set(range(table.size))
        del self.pods[table.size :]
        self.pods.extend([] for _ in range(table.size - len(self.pods)))
        for row in rows:
            self._sort(row)
        self._node_position, self._usage_position = table.node_log.position, table.usage_log.position

    def _too_many_usages(self) -> bool:
        most = _FEW_USAGES + 2 * len(self._cluster.pods)
        return len(self._amount_rows) > most or len(self._number_of) > most

    def _sort(self, row: int) -> None:
        pods = by_importance(self._cluster.table.pods[row].values())
        self.pods[row] = pods
        count = len(pods)
        while count > len(self._usages):
            self._deepen()
        self._depths[row] = count
        self._usages[:count, row] = [self._usage_number(pod) for pod in pods]
        self._priorities[:count, row] = [pod.spec.priority for pod in pods]
        self._priorities[count:, row] = NOBODY
        self._usages[count:, row] = 0
        self._starts[:count, row] = [start_of(pod) for pod in pods]

    def _usage_number(self, pod: Pod) -> int:
        shared = uses_what_it_declares(pod)
        if shared and (known := self._number_of.get(pod.spec)) is not None:
            return known
        amounts = tuple(self._cluster.table.usage_of(pod).tolist())
        number = self._numbers.setdefault(amounts, len(self._numbers))
        if number == len(self._amount_rows):
            self._amount_rows.append(amounts)
        if shared:
            self._number_of[pod.spec] = number
        return number

    def _deepen(self) -> None:
        self._usages = _deeper(self._usages, 0)
        self._priorities = _deeper(self._priorities, NOBODY)
        self._starts = _deeper(self._starts, 0)

    def _widen(self, capacity: int) -> None:
        self._usages = grown(self._usages, capacity)
        self._priorities = grown(self._priorities, capacity)
        self._starts = grown(self._starts, capacity)
        self._depths = grown(self._depths, capacity)


def changed_rows(table: NodeTable, node_position: int, usage_position: int) -> set[int] | None:
    """The rows whose node or pods changed since these positions of the logs; None when too much did."""
    if node_position < 0:
        return None
    changed, used = table.node_log.since(node_position), table.usage_log.since(usage_position)
    if changed is None or used is None:
        return None
    return {row for row in (*changed, *used) if row < table.size}


def _deeper(slots: NDArray[ScalarT], filling: int) -> NDArray[ScalarT]:
    more = np.full_like(slots, filling)
    return np.vstack([slots, more])
