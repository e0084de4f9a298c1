"""The node table: a row per node, a column per resource, and the pods of each row.

Rows are dense, 0 to `size` - 1: when a node goes, the last one moves into its place. So every column is
a plain slice, and nobody has to mask out holes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import numpy as np

from stowplan.cluster.columns import ChangeLog, IntColumn, Mask, grown, read_only
from stowplan.cluster.images import ImageIndex
from stowplan.cluster.labels import LabelColumn
from stowplan.objects import Node, Pod, PodSpec, Taint
from stowplan.objects.requests import placed_nonzero_request, placed_request, uses_what_it_declares

PODS, NONZERO_CPU, NONZERO_MEMORY, CPU, MEMORY, EPHEMERAL = range(6)
_FIXED = ("pods", "nonzero cpu", "nonzero memory", "cpu", "memory", "ephemeral-storage")
_MIN_CAPACITY = 64


class ResourceIndex:
    """Resource names to column numbers; made for what nodes offer and placed pods use, never removed."""

    def __init__(self) -> None:
        self._numbers = {name: number for number, name in enumerate(_FIXED)}

    def find(self, name: str) -> int | None:
        """The column of a resource, None when no node offers and no placed pod uses it."""
        return self._numbers.get(name)

    def number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def __len__(self) -> int:
        return len(self._numbers)


class TaintSets:
    """Each distinct list of taints once: a toleration is judged per list, not per node."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Taint, ...], int] = {(): 0}
        self.sets: list[tuple[Taint, ...]] = [()]

    def number(self, taints: tuple[Taint, ...]) -> int:
        found = self._numbers.setdefault(taints, len(self.sets))
        if found == len(self.sets):
            self.sets.append(taints)
        return found


class NodeTable:
    """Rows and columns of all nodes. `node_log` tells which node objects changed, `usage_log` where pods
    came or went."""

    def __init__(self) -> None:
        self.size = 0
        self.capacity = _MIN_CAPACITY
        self.nodes: list[Node] = []
        self.pods: list[dict[str, Pod]] = []
        self.rows: dict[str, int] = {}
        self.resources = ResourceIndex()
        self.taints = TaintSets()
        self.images = ImageIndex()
        self.node_log = ChangeLog[int]()
        self.usage_log = ChangeLog[int]()
        self._usage: IntColumn = np.zeros((len(_FIXED), self.capacity), np.int64)
        self._allocatable: IntColumn = np.zeros((len(_FIXED), self.capacity), np.int64)
        self._free: IntColumn = np.zeros((len(_FIXED), self.capacity), np.int64)
        self._taint_numbers: IntColumn = np.zeros(self.capacity, np.int64)
        self._unschedulable: Mask = np.zeros(self.capacity, np.bool_)
        self._show()
        self._labels: dict[str, LabelColumn] = {}
        self._usage_of: WeakKeyDictionary[PodSpec, IntColumn] = WeakKeyDictionary()

    # Columns

    def _show(self) -> None:
        """What others see of the columns. Plugins compute with slices of them, and `column -= 1` is soon
        written: it must fail rather than change what is known of the cluster."""
        self.all_usage = read_only(self._usage)
        self.all_allocatable = read_only(self._allocatable)
        self.all_free = read_only(self._free)
        """The difference, because every filter wants to know it. Negative where there is too much."""
        self._shown_taint_numbers = read_only(self._taint_numbers)
        self._shown_unschedulable = read_only(self._unschedulable)

    def allocatable(self, number: int) -> IntColumn:
        return self.all_allocatable[number, : self.size]

    def usage(self, number: int) -> IntColumn:
        return self.all_usage[number, : self.size]

    def resource_column(self, name: str) -> int:
        """The column of a resource, made if there is none yet."""
        number = self.resources.number(name)
        self._widen()
        return number

    @property
    def taint_numbers(self) -> IntColumn:
        """Per row, an index into `taints.sets`."""
        return self._shown_taint_numbers[: self.size]

    @property
    def unschedulable(self) -> Mask:
        return self._shown_unschedulable[: self.size]

    def label(self, key: str) -> LabelColumn:
        """The column of a label key, made when first asked for."""
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = LabelColumn(key, self.capacity)
            for row, node in enumerate(self.nodes):
                column.set(row, node.labels.get(key))
        return column

    # Nodes

    def append(self, node: Node) -> int:
        """A new node as the last row."""
        if self.size == self.capacity:
            self._grow(2 * self.capacity)
        row = self.size
        self.size += 1
        self.nodes.append(node)
        self.pods.append({})
        self._usage[:, row] = 0
        self._write(row, None, node)
        self._size_changed()
        return row

    def replace(self, row: int, node: Node) -> None:
        """Another state of the row's node, or another node. A heartbeat changes nothing that is remembered
        of a node, so nobody is told of it."""
        before = self.nodes[row]
        self.nodes[row] = node
        if not same_for_columns(before, node):
            self._write(row, before, node)

    def pop(self) -> None:
        """Forgets the last row, whose pods must be gone."""
        self.size -= 1
        node = self.nodes.pop()
        self.pods.pop()
        del self.rows[node.name]
        self._log_images(self.size, node, None)
        self.node_log.append(self.size)
        self._size_changed()

    def swap(self, one: int, other: int) -> None:
        """Two nodes change rows; both must be without pods."""
        here, there = self.nodes[one], self.nodes[other]
        for row, node, before in ((one, there, here), (other, here, there)):
            self.nodes[row] = node
            self._write(row, before, node)
        self.rows[here.name], self.rows[there.name] = other, one

    def _write(self, row: int, before: Node | None, node: Node) -> None:
        if before is not None and before.name != node.name:
            self.rows.pop(before.name, None)
        self.rows[node.name] = row
        amounts = node.allocatable
        numbers = [self.resources.number(name) for name in amounts]
        self._widen()
        self._allocatable[:, row] = 0
        self._allocatable[numbers, row] = list(amounts.values())
        self._free[:, row] = self._allocatable[:, row] - self._usage[:, row]
        self._taint_numbers[row] = self.taints.number(node.spec.taints)
        self._unschedulable[row] = node.spec.unschedulable
        for column in self._labels.values():
            column.set(row, node.labels.get(column.key))
        self._log_images(row, before, node)
        self.node_log.append(row)

    def _size_changed(self) -> None:
        """What an image counts for depends on the share of nodes that hold it, so all rows changed."""
        if self.images:
            self.node_log.invalidate()

    def _log_images(self, row: int, before: Node | None, after: Node | None) -> None:
        for other in self.images.replace(row, before, after):
            self.node_log.append(other)

    # Pods

    def add_usage(self, pod: Pod, row: int) -> None:
        usage = self.usage_of(pod)
        self._usage[: len(usage), row] += usage
        self._free[: len(usage), row] -= usage

    def remove_usage(self, pod: Pod, row: int) -> None:
        usage = self.usage_of(pod)
        self._usage[: len(usage), row] -= usage
        self._free[: len(usage), row] += usage

    def usage_of(self, pod: Pod) -> IntColumn:
        """What one placed pod adds to each column: computed once per shape."""
        shared = uses_what_it_declares(pod)
        if shared and (known := self._usage_of.get(pod.spec)) is not None:
            return known
        request = placed_request(pod)
        nonzero = placed_nonzero_request(pod)
        numbers = {self.resources.number(name): amount for name, amount in request.items()}
        numbers |= {PODS: 1, NONZERO_CPU: nonzero.get("cpu", 0), NONZERO_MEMORY: nonzero.get("memory", 0)}
        self._widen()
        usage = np.array([numbers.get(number, 0) for number in range(max(numbers) + 1)], np.int64)
        if shared:
            self._usage_of[pod.spec] = usage
        return usage

    # Room

    @contextmanager
    def used_more(self, resources: IntColumn, rows: IntColumn, amounts: IntColumn) -> Iterator[None]:
        """As if so much more of these resources (or less) were used on these rows, while the block lasts."""
        where = np.ix_(resources, rows)
        self._usage[where] += amounts
        self._free[where] -= amounts
        try:
            yield
        finally:
            self._usage[where] -= amounts
            self._free[where] += amounts

    def _widen(self) -> None:
        """Makes columns for resources that were just numbered."""
        missing = len(self.resources) - len(self._usage)
        if missing > 0:
            empty = np.zeros((missing, self.capacity), np.int64)
            self._usage = np.vstack([self._usage, empty])
            self._allocatable = np.vstack([self._allocatable, empty])
            self._free = np.vstack([self._free, empty])
            self._show()

    def _grow(self, capacity: int) -> None:
        self.capacity = capacity
        self._usage = grown(self._usage, capacity)
        self._allocatable = grown(self._allocatable, capacity)
        self._free = grown(self._free, capacity)
        self._taint_numbers = grown(self._taint_numbers, capacity)
        self._unschedulable = grown(self._unschedulable, capacity)
        self._show()
        for column in self._labels.values():
            column.grow(capacity)


def same_for_columns(before: Node, after: Node) -> bool:
    """Whether all that plugins may remember of a node is as it was: everything but its conditions."""
    return (
        before.name == after.name
        and before.labels is after.labels
        and before.spec == after.spec
        and before.allocatable == after.allocatable
        and before.status.images == after.status.images
        and before.status.declared_features == after.status.declared_features
        and before.annotations == after.annotations
    )
