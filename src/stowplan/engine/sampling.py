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
    """Where the next search starts, so that in the long run every node gets its turn."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._start = 0

    def cut(self, feasible: Mask, percentage: int) -> tuple[Mask, int]:
        """Only the first feasible nodes in upstream's order, and how many nodes were looked at for that."""
        size = len(feasible)
        wanted = nodes_to_find(percentage, size)
        rows = self._cluster.table.rows
        order: IntColumn = np.fromiter((rows[name] for name in self._cluster.order.names()), np.int64, size)
        order = np.roll(order, -(self._start % size))
        found = np.cumsum(feasible[order])
        looked_at = int(np.searchsorted(found, wanted)) + 1 if found[-1] >= wanted else size
        kept = np.zeros(size, np.bool_)
        kept[order[:looked_at]] = True
        self._start = (self._start + looked_at) % size
        return feasible & kept, looked_at
