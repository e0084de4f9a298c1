"""How many volumes of every driver are on every node, and how many there may be, as columns.

A row is counted again when its pods, its CSINode, its VolumeAttachments, or a claim or volume that was
looked at for it have changed; all else stays as it was counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from stowplan.cluster import Cluster, IntColumn, Mask, Nodes
from stowplan.cluster.columns import grown
from stowplan.plugins.volumes.claims import VolumeError
from stowplan.plugins.volumes.names import CLAIMS, VOLUMES, VolumeNames

NO_LIMIT = 2**62


@dataclass
class RowCount:
    """What is on one node."""

    limits: dict[str, int] = field(default_factory=dict)
    """By driver, for those that have a limit. Without any, nothing else is looked at."""
    of_pods: dict[str, str] = field(default_factory=dict)
    """The volumes of the pods, with their drivers."""
    attached: Counter[str] = field(default_factory=Counter)
    """By driver, the volumes of the pods and what else is attached."""
    problem: str = ""
    """Why the volumes cannot be counted."""
    with_csi: bool = False
    """Whether the node's drivers are known."""

    def exceeded_by(self, names: Mapping[str, str]) -> bool:
        """Whether these volumes, with their drivers, are too many on top of what is there."""
        more = Counter(driver for name, driver in names.items() if name not in self.of_pods)
        return any(
            self.attached[driver] + n > self.limits.get(driver, NO_LIMIT) for driver, n in more.items()
        )


class AttachedVolumes:
    """The counts of all rows. Not to be refreshed in a trial: there, single rows are counted afresh."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._names = VolumeNames(cluster)
        self._attachments = _Attachments(cluster)
        self._rows: list[RowCount] = []
        self._counts: dict[str, IntColumn] = {}
        self._limits: dict[str, IntColumn] = {}
        self._holders: dict[str, set[int]] = {}
        self._readers: dict[tuple[str, str], set[int]] = {}
        self._problems: set[int] = set()
        self._without_csi: set[int] = set()
        self._positions = (-1, -1, -1, -1, -1)
        self._classes_version = -1

    # One row

    def count(self, row: int) -> RowCount:
        """What is on a node now, trials included."""
        self._attachments.refresh()
        self._names.seen.clear()
        return self._count(row)

    def _count(self, row: int) -> RowCount:
        table = self._cluster.table
        name = table.nodes[row].name
        csi_node = self._cluster.csi_nodes.get(name)
        if csi_node is None:
            return RowCount()
        limits = {
            driver.name: driver.allocatable.count
            for driver in csi_node.spec.drivers
            if driver.allocatable is not None and driver.allocatable.count is not None
        }
        counted = RowCount(limits, with_csi=True)
        if not limits:
            return counted
        try:
            for pod in table.pods[row].values():
                if pod.spec.volumes:
                    counted.of_pods |= self._names.of_placed(pod)
        except VolumeError as problem:
            counted.problem = str(problem)
        others = self._names.of_attachments(name, self._attachments.of_node(name))
        counted.attached = Counter((counted.of_pods | others).values())
        return counted

    # All rows

    def refresh(self) -> None:
        """Brings the columns up to date."""
        rows = self._stale_rows()
        if rows is None:
            self._restart()
            rows = range(self._cluster.table.size)
        for row in rows:
            self._write(row, self._count_and_watch(row))

    def exceeded(self, names: Mapping[str, str], nodes: Nodes) -> Mask:
        """The nodes for which these volumes, with their drivers, are too many on top of what is there."""
        size = self._cluster.table.size
        too_many: Mask = np.zeros(size, np.bool_)
        by_driver: dict[str, list[str]] = {}
        for name, driver in names.items():
            by_driver.setdefault(driver, []).append(name)
        for driver, wanted in by_driver.items():
            if driver in self._limits:
                more = np.full(size, len(wanted), np.int64)
                for name in wanted:
                    more[list(self._holders.get(name, ()))] -= 1
                counts, limits = self._counts[driver][:size], self._limits[driver][:size]
                too_many |= (more > 0) & (counts + more > limits)
        return too_many[nodes.rows]

    def problem_on(self, nodes: Nodes) -> str:
        """Why the volumes on one of the nodes cannot be counted, "" when all can."""
        rows = self._problems.intersection(nodes.row_numbers.tolist()) if self._problems else ()
        return self._rows[min(rows)].problem if rows else ""

    def without_csi(self, nodes: Nodes) -> Mask:
        """The nodes of which no driver is known."""
        return nodes.mask(list(self._without_csi))

    def _stale_rows(self) -> Iterable[int] | None:
        """The rows to count again, None for all."""
        cluster, table = self._cluster, self._cluster.table
        self._attachments.refresh()
        before = self._positions
        self._positions = (
            table.node_log.position,
            table.usage_log.position,
            cluster.claims.version,
            cluster.volumes.version,
            cluster.csi_nodes.version,
        )
        if self._classes_version != cluster.storage_classes.version or before[0] < 0:
            return None
        moved, used = table.node_log.since(before[0]), table.usage_log.since(before[1])
        claims = cluster.claims.changed_since(before[2])
        volumes = cluster.volumes.changed_since(before[3])
        csi_nodes = cluster.csi_nodes.changed_since(before[4])
        attached_to = self._attachments.changed
        if moved is None or used is None or claims is None or volumes is None or csi_nodes is None:
            return None
        if attached_to is None:
            return None
        rows = {*moved, *used}
        for kind, keys in ((CLAIMS, claims), (VOLUMES, volumes)):
            for key in keys:
                rows |= self._readers.pop((kind, key), set())
        for node_name in csi_nodes | attached_to:
            row = cluster.row_of(node_name)
            if row is not None:
                rows.add(row)
        attached_to.clear()
        self._drop_rows(table.size)
        return {row for row in rows if row < table.size}

    def _drop_rows(self, size: int) -> None:
        """Rows that are gone must not show up in any answer."""
        while len(self._rows) > size:
            row = len(self._rows) - 1
            self._write(row, RowCount(with_csi=True))
            self._rows.pop()

    def _restart(self) -> None:
        self._rows.clear()
        self._counts.clear()
        self._limits.clear()
        self._holders.clear()
        self._readers.clear()
        self._problems.clear()
        self._without_csi.clear()
        self._attachments.changed = set()
        self._classes_version = self._cluster.storage_classes.version

    def _count_and_watch(self, row: int) -> RowCount:
        self._names.seen.clear()
        counted = self._count(row)
        for key in self._names.seen:
            self._readers.setdefault(key, set()).add(row)
        return counted

    def _write(self, row: int, counted: RowCount) -> None:
        while len(self._rows) <= row:
            self._rows.append(RowCount())
        before = self._rows[row]
        self._rows[row] = counted
        for name in before.of_pods.keys() - counted.of_pods.keys():
            self._holders[name].discard(row)
            if not self._holders[name]:
                del self._holders[name]
        for name in counted.of_pods.keys() - before.of_pods.keys():
            self._holders.setdefault(name, set()).add(row)
        for driver in before.limits.keys() - counted.limits.keys():
            self._column(self._limits, driver, NO_LIMIT)[row] = NO_LIMIT
        for driver, limit in counted.limits.items():
            self._column(self._limits, driver, NO_LIMIT)[row] = limit
            self._column(self._counts, driver, 0)[row] = counted.attached[driver]
        (self._problems.add if counted.problem else self._problems.discard)(row)
        (self._without_csi.discard if counted.with_csi else self._without_csi.add)(row)

    def _column(self, columns: dict[str, IntColumn], driver: str, empty: int) -> IntColumn:
        capacity = self._cluster.table.capacity
        column = columns.get(driver)
        if column is None:
            column = columns[driver] = np.full(capacity, empty, np.int64)
        elif len(column) < capacity:
            old = len(column)
            column = columns[driver] = grown(column, capacity)
            column[old:] = empty
        return column


class _Attachments:
    """The VolumeAttachments of every node."""

    def __init__(self, cluster: Cluster) -> None:
        self._table = cluster.volume_attachments
        self._version = -1
        self._node_of: dict[str, str] = {}
        self._keys_of: dict[str, set[str]] = {}
        self.changed: set[str] | None = None
        """Nodes whose attachments have changed since the reader cleared it, None for all."""

    def of_node(self, node_name: str) -> set[str]:
        return self._keys_of.get(node_name, set())

    def refresh(self) -> None:
        if self._version == self._table.version:
            return
        keys = self._table.changed_since(self._version) if self._version >= 0 else None
        self._version = self._table.version
        if keys is None:
            self._node_of.clear()
            self._keys_of.clear()
            self.changed = None
            keys = {attachment.name for attachment in self._table}
        for key in keys:
            self._replace(key)

    def _replace(self, key: str) -> None:
        before = self._node_of.pop(key, None)
        if before is not None:
            self._keys_of[before].discard(key)
        attachment = self._table.get(key)
        now = None if attachment is None else attachment.spec.node_name
        if now is not None:
            self._node_of[key] = now
            self._keys_of.setdefault(now, set()).add(key)
        if self.changed is not None:
            self.changed.update(name for name in (before, now) if name is not None)
