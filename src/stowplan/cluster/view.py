"""How plugins see nodes: many at once as columns, or one at a time as numbers.

`Nodes` is a selection of rows; the same plugin code works on all rows, on the few that may still
take the pod, and on one. `NodeRow` is a single row with plain Python values, for the per-node form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stowplan.cluster.columns import IntColumn, Mask
from stowplan.cluster.labels import IdColumn
from stowplan.cluster.nodetable import NONZERO_CPU, NONZERO_MEMORY, PODS
from stowplan.objects import Labels, Node, Pod, Taint

if TYPE_CHECKING:
    from stowplan.cluster.cluster import Cluster
    from stowplan.cluster.domains import RowCounts
    from stowplan.cluster.nodetable import NodeTable

Rows = NDArray[np.int64] | slice


class NodeRow:
    """One node and what is on it. Cheap to make; reads the table when asked, never keeps a copy."""

    __slots__ = ("cluster", "row", "table")

    def __init__(self, cluster: Cluster, row: int) -> None:
        self.cluster = cluster
        self.table: NodeTable = cluster.table
        self.row = row

    @property
    def node(self) -> Node:
        return self.table.nodes[self.row]

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def labels(self) -> Labels:
        return self.node.labels

    @property
    def pods(self) -> list[Pod]:
        """The pods placed here, assumed ones included."""
        return list(self.table.pods[self.row].values())

    def allocatable(self, resource: str) -> int:
        number = self.table.resources.find(resource)
        return 0 if number is None else self.table.all_allocatable.item(number, self.row)

    def requested(self, resource: str) -> int:
        number = self.table.resources.find(resource)
        return 0 if number is None else self.table.all_usage.item(number, self.row)

    @property
    def pod_count(self) -> int:
        return self.table.all_usage.item(PODS, self.row)

    @property
    def nonzero_requested(self) -> tuple[int, int]:
        """CPU (milli) and memory, counting a default for containers that request none."""
        usage = self.table.all_usage
        return usage.item(NONZERO_CPU, self.row), usage.item(NONZERO_MEMORY, self.row)


class Nodes:
    """Some rows of the node table, as columns of equal length. To write into one, copy it: those of all nodes
    are the table's own, and refuse to be changed."""

    __slots__ = ("cluster", "rows", "size", "table")

    def __init__(self, cluster: Cluster, rows: Rows | None = None) -> None:
        self.cluster = cluster
        self.table: NodeTable = cluster.table
        self.rows: Rows = slice(0, self.table.size) if rows is None else rows
        self.size = self.table.size if isinstance(self.rows, slice) else len(self.rows)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> NodeRow:
        return NodeRow(self.cluster, self.row_numbers.item(index))

    def __iter__(self) -> Iterator[NodeRow]:
        return (NodeRow(self.cluster, row) for row in self.row_numbers.tolist())

    @property
    def everything(self) -> bool:
        """Whether these are all nodes of the cluster."""
        return isinstance(self.rows, slice)

    @property
    def row_numbers(self) -> NDArray[np.int64]:
        if isinstance(self.rows, slice):
            return np.arange(self.size)
        return self.rows

    def where(self, mask: Mask) -> Nodes:
        """Those of these nodes for which the mask is true."""
        return Nodes(self.cluster, np.flatnonzero(mask) if isinstance(self.rows, slice) else self.rows[mask])

    def at(self, positions: NDArray[np.int64]) -> Nodes:
        """Those of these nodes at the given positions."""
        return Nodes(self.cluster, positions if isinstance(self.rows, slice) else self.rows[positions])

    @property
    def names(self) -> list[str]:
        return [node.name for node in self.objects]

    @property
    def objects(self) -> list[Node]:
        """The node records, for what no column holds."""
        nodes = self.table.nodes
        if isinstance(self.rows, slice):
            return nodes.copy()
        return [nodes[row] for row in self.rows.tolist()]

    def allocatable(self, resource: str) -> IntColumn:
        """What the nodes can give to pods: cpu in milli, all else in units; 0 where not offered."""
        return self._column(self.table.all_allocatable, self.table.resources.find(resource))

    def requested(self, resource: str) -> IntColumn:
        """The sum of what the placed pods request."""
        return self._column(self.table.all_usage, self.table.resources.find(resource))

    def free(self, resource: str) -> IntColumn:
        """What is allocatable and not requested; negative where there is too much on a node."""
        return self._column(self.table.all_free, self.table.resources.find(resource))

    @property
    def pod_count(self) -> IntColumn:
        return self._column(self.table.all_usage, PODS)

    @property
    def nonzero_requested(self) -> tuple[IntColumn, IntColumn]:
        """CPU (milli) and memory, counting a default for containers that request none."""
        usage = self.table.all_usage
        return self._column(usage, NONZERO_CPU), self._column(usage, NONZERO_MEMORY)

    @property
    def unschedulable(self) -> Mask:
        return self.table.unschedulable[self.rows]

    def label_ids(self, key: str) -> IdColumn:
        """Each node's value of a label as a small number, -1 where it has none."""
        return self.table.label(key).ids(self.table.size)[self.rows]

    def label_values(self, key: str) -> list[str]:
        """The value that each number of `label_ids` stands for."""
        return self.table.label(key).values.copy()

    def with_label(self, key: str, accepts: Callable[[str | None], bool]) -> Mask:
        """The nodes whose value of a label (None when missing) is accepted; asked once per value."""
        return self.table.label(key).where(self.table.size, accepts)[self.rows]

    def with_label_in(self, key: str, values: tuple[str, ...]) -> Mask:
        """The nodes whose value of a label is one of `values`."""
        return self.table.label(key).where_in(self.table.size, values)[self.rows]

    def taints(self, judge: Callable[[tuple[Taint, ...]], int]) -> IntColumn:
        """A number for each node that depends on its taints only; asked once per distinct list."""
        answers = np.fromiter(map(judge, self.table.taints.sets), np.int64, len(self.table.taints.sets))
        return answers[self.table.taint_numbers[self.rows]]

    def count(self, counter: RowCounts) -> IntColumn:
        """A counter's column for these nodes."""
        return counter.column(self.table.size)[self.rows]

    def mask(self, rows: list[int]) -> Mask:
        """True for those of these nodes that are in the given rows of the table."""
        chosen = np.zeros(self.table.size, np.bool_)
        chosen[rows] = True
        return chosen[self.rows]

    def _column(self, columns: IntColumn, number: int | None) -> IntColumn:
        if number is None:
            return np.zeros(self.size, np.int64)
        column: IntColumn = columns[number, : self.table.size][self.rows]
        return column
