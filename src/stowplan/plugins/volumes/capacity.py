"""How much storage is left where, as drivers report it with CSIStorageCapacity objects."""

from __future__ import annotations

import numpy as np

from stowplan.cluster import Mask, Nodes
from stowplan.cluster.tables import ObjectTable, object_key
from stowplan.objects import CSIStorageCapacity
from stowplan.objects.quantity import value
from stowplan.plugins.volumes.reach import Reach, label_reach


class StoragePools:
    """The pools by storage class, kept up to date with the cluster."""

    def __init__(self, table: ObjectTable[CSIStorageCapacity]) -> None:
        self._table = table
        self._version = -1
        self._pools: dict[str, dict[str, tuple[int, Reach]]] = {}
        self._class_of: dict[str, str] = {}

    def with_room(self, class_name: str, size: int, nodes: Nodes) -> Mask:
        """The nodes from which some pool of the class can be reached that has room for a volume."""
        self._refresh()
        enough: Mask = np.zeros(len(nodes), np.bool_)
        by_label: dict[str, list[str]] = {}
        for limit, reach in self._pools.get(class_name, {}).values():
            if limit < size:
                continue
            if reach.key is not None:
                by_label.setdefault(reach.key, []).extend(reach.values)
            else:
                enough |= reach.mask(nodes)
        for label, values in by_label.items():
            enough |= nodes.with_label_in(label, tuple(values))
        return enough

    def _refresh(self) -> None:
        if self._version == self._table.version:
            return
        changed = self._table.changed_since(self._version) if self._version >= 0 else None
        self._version = self._table.version
        if changed is None:
            self._pools.clear()
            self._class_of.clear()
            changed = {object_key(pool) for pool in self._table}
        for key in changed:
            self._replace(key)

    def _replace(self, key: str) -> None:
        before = self._class_of.pop(key, None)
        if before is not None:
            del self._pools[before][key]
        pool = self._table.get(key)
        limit = None if pool is None else largest_volume(pool)
        if pool is not None and limit is not None:
            self._class_of[key] = pool.storage_class_name
            self._pools.setdefault(pool.storage_class_name, {})[key] = (
                limit,
                label_reach(pool.node_topology),
            )


def largest_volume(pool: CSIStorageCapacity) -> int | None:
    """The largest volume that the pool can give, None when it does not say."""
    limit = pool.maximum_volume_size if pool.maximum_volume_size is not None else pool.capacity
    return None if limit is None else value(limit)
