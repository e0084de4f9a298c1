"""What we know of the cluster, kept as columns.

Nodes are rows, and whatever a plugin asks of every node is a numpy column over those rows: what is
allocatable, what is requested, label values, how many pods match a selector. This room knows objects
and arithmetic only; it must not know plugins, profiles, queues or any API server.

`Cluster` is the way in: `add`, `update` and `remove` take any object, `assume` and `forget` a pod that
was decided but not yet confirmed, and `trial` makes changes that undo themselves.
"""

from stowplan.cluster.cluster import Cluster
from stowplan.cluster.columns import IntColumn, Mask
from stowplan.cluster.view import NodeRow, Nodes

__all__ = ["Cluster", "IntColumn", "Mask", "NodeRow", "Nodes"]
