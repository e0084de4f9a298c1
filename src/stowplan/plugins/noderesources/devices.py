"""Devices that count as an extended resource: how many each node can reach, and how many are taken.

Where a node does not advertise an extended resource itself, scoring counts the devices of the class that
stands behind the resource.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stowplan.cluster import Cluster, IntColumn
from stowplan.objects import DeviceClass, Node, ResourceSlice
from stowplan.plugins.dynamicresources.cel import CELCompileError, CELRuntimeError, compile_selector
from stowplan.plugins.dynamicresources.ledger import ledger_of
from stowplan.plugins.dynamicresources.pools import PoolDevice, Slice
from stowplan.plugins.dynamicresources.reach import ReachError
from stowplan.plugins.dynamicresources.state import DeviceID


@dataclass
class _Reach:
    """The devices of a class, by who can reach them, as long as no slice and no node changes."""

    device_class: DeviceClass
    versions: tuple[int, int]
    total: IntColumn
    rows: dict[DeviceID, list[int]] = field(default_factory=dict)


class DeviceCounts:
    """Per class and node, the number of devices and of those that claims have."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._reach: dict[str, _Reach] = {}

    def columns(self, device_class: DeviceClass) -> tuple[IntColumn, IntColumn]:
        """For all nodes: devices, and devices taken. Nodes for which that cannot be said have none."""
        reach = self._reach_of(device_class)
        ledger = ledger_of(self._cluster)
        ledger.refresh()
        taken = np.zeros(len(reach.total), np.int64)
        for device, rows in reach.rows.items():
            if ledger.state.is_allocated(device):
                taken[rows] += 1
        return reach.total, np.where(reach.total > 0, taken, 0)

    def _reach_of(self, device_class: DeviceClass) -> _Reach:
        table = self._cluster.table
        versions = self._cluster.resource_slices.version, table.node_log.position
        known = self._reach.get(device_class.name)
        if known is None or known.device_class is not device_class or known.versions != versions:
            known = _Reach(device_class, versions, np.zeros(table.size, np.int64))
            self._reach[device_class.name] = known
            self._count(known)
        return known

    def _count(self, reach: _Reach) -> None:
        unclear: set[int] = set()
        for record in self._cluster.resource_slices:
            owner = Slice(record)
            for row in self._rows_near(record):
                try:
                    devices = _matching(owner, self._cluster.table.nodes[row], reach.device_class)
                except (ReachError, CELCompileError, CELRuntimeError):
                    unclear.add(row)
                    continue
                reach.total[row] += len(devices)
                for device in devices:
                    reach.rows.setdefault(device.id, []).append(row)
        reach.total[list(unclear)] = 0

    def _rows_near(self, record: ResourceSlice) -> list[int]:
        """The rows from which the slice might be reached."""
        if not record.spec.node_name:
            return list(range(self._cluster.table.size))
        row = self._cluster.row_of(record.spec.node_name)
        return [] if row is None else [row]


def _matching(owner: Slice, node: Node, device_class: DeviceClass) -> list[PoolDevice]:
    if not owner.relevant(node):
        return []
    near = [device for device in owner.devices if owner.here(device, node)]
    expressions = [one.cel.expression for one in device_class.spec.selectors if one.cel is not None]
    return [d for d in near if all(compile_selector(text).matches(d.seen) for text in expressions)]
