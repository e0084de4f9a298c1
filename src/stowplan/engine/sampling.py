"""Looking at a part of the nodes only, as `percentageOfNodesToScore` asks for.

By default all nodes are looked at, which costs less here than sampling does upstream. A percentage set
by the user is honoured with upstream's numbers, order and rotation.
"""

from __future__ import annotations

import numpy as np

from stowplan.cluster import Cluster, IntColumn, Mask

_ALL_BELOW = 100
_AT_LEAST = 100


def nodes_to_find(percentage: int, nodes: int) -> int:
    """How many feasible nodes end the search."""
    if nodes < _ALL_BELOW or percentage >= 100:
        return nodes
    return max(nodes * percentage // 100, _AT_LEAST)


class Rotation:
    """Where the next search starts, so that in the long run every node gets its turn. Profiles share one."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._start = 0
        self._names: tuple[str, ...] = ()
        self._rows: IntColumn = np.zeros(0, np.int64)

    def cut(self, feasible: Mask, wanted: int) -> tuple[Mask, int]:
        """Only the first feasible nodes in upstream's order, and how many nodes were looked at for that. The
        search notices that it has enough when it comes to one more."""
        size = len(feasible)
        order = np.roll(self._order(), -(self._start % size))
        found = np.cumsum(feasible[order])
        enough, looked_at = np.searchsorted(found, (wanted, wanted + 1)).tolist()
        kept = np.zeros(size, np.bool_)
        kept[order[: enough + 1]] = True
        self._start = (self._start + looked_at) % size
        return feasible & kept, looked_at

    def _order(self) -> IntColumn:
        """The rows in upstream's order, until a node comes or goes."""
        names = self._cluster.order.names()
        if names is not self._names:
            rows = self._cluster.table.rows
            self._rows = np.fromiter((rows[name] for name in names), np.int64, len(names))
            self._names = names
        return self._rows
