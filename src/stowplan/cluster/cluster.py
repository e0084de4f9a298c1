"""The cluster: everything known of it, and the only way to change it.

Adding, updating and removing any object keeps everything derived from it right. Changes made in a
`trial` are undone at its end, in reverse order; they are not written to the change logs, because
nothing that remembers answers may look while a trial is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from stowplan.cluster.counters import PodCounters
from stowplan.cluster.domains import DomainIndex
from stowplan.cluster.nodetable import NodeTable
from stowplan.cluster.nominations import Nominations
from stowplan.cluster.order import ZoneOrder
from stowplan.cluster.ports import PortIndex
from stowplan.cluster.promised import PromisedRoom
from stowplan.cluster.tables import Named, ObjectTable, object_key
from stowplan.cluster.terms import AffinityTerms
from stowplan.cluster.view import NodeRow, Nodes
from stowplan.cluster.volumeusers import VolumeUsers
from stowplan.objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    DeviceClass,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
    Service,
    StatefulSet,
    StorageClass,
    VolumeAttachment,
)
from stowplan.objects.requests import reported


class Cluster:
    """Nodes and pods as columns, all else as tables by key."""

    def __init__(self) -> None:
        self.table = NodeTable()
        self.counters = PodCounters(self.table.capacity)
        self.terms = AffinityTerms(self.table.capacity)
        self.domains = DomainIndex(self)
        self.ports = PortIndex()
        self.volume_users = VolumeUsers()
        self.nominations = Nominations()
        self.promised = PromisedRoom(self.table, self.nominations)
        self.order = ZoneOrder()
        self.pods: dict[str, Pod] = {}
        """Every placed pod by uid, assumed ones included; `node_name` says where."""
        self.assumed: dict[str, Pod] = {}
        self._homeless: dict[str, dict[str, Pod]] = {}
        self._undo: list[Callable[[], None]] | None = None

        self.namespaces: ObjectTable[Namespace] = ObjectTable()
        self.services: ObjectTable[Service] = ObjectTable()
        self.replication_controllers: ObjectTable[ReplicationController] = ObjectTable()
        self.replica_sets: ObjectTable[ReplicaSet] = ObjectTable()
        self.stateful_sets: ObjectTable[StatefulSet] = ObjectTable()
        self.disruption_budgets: ObjectTable[PodDisruptionBudget] = ObjectTable()
        self.volumes: ObjectTable[PersistentVolume] = ObjectTable()
        self.claims: ObjectTable[PersistentVolumeClaim] = ObjectTable()
        self.storage_classes: ObjectTable[StorageClass] = ObjectTable()
        self.csi_nodes: ObjectTable[CSINode] = ObjectTable()
        self.csi_drivers: ObjectTable[CSIDriver] = ObjectTable()
        self.storage_capacities: ObjectTable[CSIStorageCapacity] = ObjectTable()
        self.volume_attachments: ObjectTable[VolumeAttachment] = ObjectTable()
        self.resource_claims: ObjectTable[ResourceClaim] = ObjectTable()
        self.resource_claim_templates: ObjectTable[ResourceClaimTemplate] = ObjectTable()
        self.resource_slices: ObjectTable[ResourceSlice] = ObjectTable()
        self.device_classes: ObjectTable[DeviceClass] = ObjectTable()
        tables: dict[type, ObjectTable[Any]] = {
            Namespace: self.namespaces,
            Service: self.services,
            ReplicationController: self.replication_controllers,
            ReplicaSet: self.replica_sets,
            StatefulSet: self.stateful_sets,
            PodDisruptionBudget: self.disruption_budgets,
            PersistentVolume: self.volumes,
            PersistentVolumeClaim: self.claims,
            StorageClass: self.storage_classes,
            CSINode: self.csi_nodes,
            CSIDriver: self.csi_drivers,
            CSIStorageCapacity: self.storage_capacities,
            VolumeAttachment: self.volume_attachments,
            ResourceClaim: self.resource_claims,
            ResourceClaimTemplate: self.resource_claim_templates,
            ResourceSlice: self.resource_slices,
            DeviceClass: self.device_classes,
        }
        self._tables: dict[type, ObjectTable[Named]] = tables

    # Any object

    def add(self, obj: Named) -> None:
        """Adds an object, or replaces the one of the same kind and key. Pods count once they have a node."""
        if isinstance(obj, Pod):
            self.put_pod(obj)
        elif isinstance(obj, Node):
            self.put_node(obj)
        elif (table := self._tables.get(type(obj))) is not None:
            before = table.put(obj)
            self._undoing(lambda: self._put_back(table, obj, before))

    update = add

    def remove(self, obj: Named) -> None:
        """Removes an object; unknown ones are no error."""
        if isinstance(obj, Pod):
            self.remove_pod(obj.uid)
        elif isinstance(obj, Node):
            self.remove_node(obj.name)
        elif (table := self._tables.get(type(obj))) is not None:
            before = table.pop(object_key(obj))
            if before is not None:
                self._undoing(lambda: self._put_back(table, obj, before))

    def _put_back(self, table: ObjectTable[Named], obj: Named, before: Named | None) -> None:
        if before is None:
            table.pop(object_key(obj))
        else:
            table.put(before)

    # Nodes

    @property
    def nodes(self) -> Nodes:
        """All nodes."""
        return Nodes(self)

    def row_of(self, node_name: str) -> int | None:
        return self.table.rows.get(node_name)

    def node(self, node_name: str) -> NodeRow | None:
        row = self.table.rows.get(node_name)
        return None if row is None else NodeRow(self, row)

    def put_node(self, node: Node) -> None:
        """Adds a node with the pods that were waiting for it, or updates it."""
        row = self.table.rows.get(node.name)
        if self._undo is not None:
            order = self.order.copy()
            self._undo.append(lambda: self._restore_order(order))
        if row is None:
            self._insert_node(node)
            self._undoing(lambda: self.remove_node(node.name))
        else:
            before = self.table.nodes[row]
            self._replace_node(row, node)
            self._undoing(lambda: self._replace_node(self.table.rows[node.name], before))

    def _insert_node(self, node: Node) -> None:
        capacity = self.table.capacity
        row = self.table.append(node)
        if self.table.capacity != capacity:
            self.counters.grow(self.table.capacity)
            self.terms.grow(self.table.capacity)
        self.order.add(node.name, node.labels)
        for pod in self._homeless.pop(node.name, {}).values():
            self._occupy(pod, row)

    def _replace_node(self, row: int, node: Node) -> None:
        self.table.replace(row, node)
        self.order.update(node.name, node.labels)

    def remove_node(self, node_name: str) -> None:
        """Takes a node out; its pods stay known and come back with it. The last row moves to its place."""
        row = self.table.rows.get(node_name)
        if row is None:
            return
        node = self.table.nodes[row]
        pods = list(self.table.pods[row].values())
        last = self.table.size - 1
        self._vacate_all(row)
        if row != last:
            moved_node = self.table.nodes[last]
            moved_pods = self._vacate_all(last)
            self.table.pop()
            self.table.replace(row, moved_node)
            for pod in moved_pods:
                self._occupy(pod, row)
        else:
            self.table.pop()
        order = self.order.copy() if self.in_trial else self.order
        self.order.remove(node_name)
        if pods:
            self._homeless[node_name] = {pod.uid: pod for pod in pods}
        self._undoing(lambda: self._restore_node(node, row, order))

    def _restore_order(self, order: ZoneOrder) -> None:
        """Undone node by node, a node that changed its zone would stand behind those that never left."""
        self.order = order

    def _restore_node(self, node: Node, row: int, order: ZoneOrder) -> None:
        """Undoes a removal: the node gets its row and its place in the order back."""
        self._insert_node(node)
        self.order = order
        last = self.table.size - 1
        if row != last:
            pods_here, pods_there = self._vacate_all(row), self._vacate_all(last)
            self.table.swap(row, last)
            for pod in pods_here:
                self._occupy(pod, last)
            for pod in pods_there:
                self._occupy(pod, row)

    def _vacate_all(self, row: int) -> list[Pod]:
        pods = list(self.table.pods[row].values())
        for pod in pods:
            self._vacate(pod, row)
        return pods

    # Pods

    def put_pod(self, pod: Pod) -> None:
        """A pod as the API server has it: placed, moved, changed, or (without a node) not counted here.
        An assumed pod that is seen on a node is thereby confirmed."""
        before = self.pods.get(pod.uid)
        if before is not None and same_for_columns(before, pod):
            self._replace_pod(pod)
            self._undoing(lambda: self._replace_pod(before))
        else:
            if before is not None:
                self._take_out(before)
                self._undoing(lambda: self._put_in(before))
            if pod.node_name:
                self._put_in(pod)
                self._undoing(lambda: self._take_out(pod))
        assumed = self.assumed.pop(pod.uid, None)
        if assumed is not None:
            self._undoing(lambda: self.assumed.__setitem__(pod.uid, assumed))

    def remove_pod(self, uid: str) -> None:
        pod = self.pods.get(uid)
        if pod is None:
            return
        if self.in_trial:
            self._undoing(self._putting_back(pod))
        self._take_out(pod)
        assumed = self.assumed.pop(uid, None)
        if assumed is not None:
            self._undoing(lambda: self.assumed.__setitem__(uid, assumed))

    def _putting_back(self, pod: Pod) -> Callable[[], None]:
        """How to undo the removal of a pod, which is about to happen. It gets its old place among the pods of
        its node back: their order decides between pods that are equal otherwise."""
        row = self.table.rows.get(pod.node_name)
        order = None if row is None else dict(self.table.pods[row])

        def put_back() -> None:
            self._put_in(pod)
            if row is not None and order is not None:
                self.table.pods[row] = order

        return put_back

    def assume(self, pod: Pod, node_name: str) -> Pod:
        """Counts a pod on the node chosen for it before the API server knows. Returns the placed pod."""
        if pod.uid in self.pods:
            raise ValueError(f"Pod {pod.key} (uid {pod.uid}) is already on {self.pods[pod.uid].node_name}")
        placed = pod.placed_on(node_name)
        self._put_in(placed)
        self.assumed[placed.uid] = placed
        self._undoing(lambda: self.forget(placed.uid))
        return placed

    def forget(self, uid: str) -> None:
        """Takes an assumed pod back; unknown ones are no error, confirmed ones are."""
        pod = self.assumed.pop(uid, None)
        if pod is None:
            if uid in self.pods:
                raise ValueError(f"Pod {self.pods[uid].key} (uid {uid}) is confirmed and cannot be forgotten")
            return
        self._take_out(pod)
        self._undoing(lambda: self._assume_again(pod))

    def _assume_again(self, pod: Pod) -> None:
        self._put_in(pod)
        self.assumed[pod.uid] = pod

    def _replace_pod(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        row = self.table.rows.get(pod.node_name)
        home = self._homeless[pod.node_name] if row is None else self.table.pods[row]
        home[pod.uid] = pod

    def _put_in(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        row = self.table.rows.get(pod.node_name)
        if row is None:
            self._homeless.setdefault(pod.node_name, {})[pod.uid] = pod
        else:
            self._occupy(pod, row)

    def _take_out(self, pod: Pod) -> None:
        pod = self.pods.pop(pod.uid)
        row = self.table.rows.get(pod.node_name)
        if row is not None:
            self._vacate(pod, row)
            return
        waiting = self._homeless[pod.node_name]
        del waiting[pod.uid]
        if not waiting:
            del self._homeless[pod.node_name]

    def _occupy(self, pod: Pod, row: int) -> None:
        self.table.pods[row][pod.uid] = pod
        self.table.add_usage(pod, row)
        self._count(pod, row, 1)

    def _vacate(self, pod: Pod, row: int) -> None:
        del self.table.pods[row][pod.uid]
        self.table.remove_usage(pod, row)
        self._count(pod, row, -1)

    def _count(self, pod: Pod, row: int, amount: int) -> None:
        self.counters.add(pod, row, amount)
        if pod.spec.affinity is not None:
            self.terms.add(pod, row, amount)
        if pod.spec.host_ports:
            self.ports.add(pod.spec.host_ports, row, amount)
        if pod.spec.volumes:
            self.volume_users.add(pod, row, amount)
        if self._undo is None:
            self.table.usage_log.append(row)

    # Trials

    @property
    def in_trial(self) -> bool:
        """Whether changes made now will be undone."""
        return self._undo is not None

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Everything changed within is undone at the end, whatever happens. Trials may be nested."""
        outer, self._undo = self._undo, []
        try:
            yield
        finally:
            steps, self._undo = self._undo, []
            for step in reversed(steps):
                step()
            self._undo = outer

    def _undoing(self, step: Callable[[], None]) -> None:
        if self._undo is not None:
            self._undo.append(step)


def same_for_columns(before: Pod, after: Pod) -> bool:
    """Whether a changed pod still counts the same everywhere. When it started says how important it is."""
    return (
        before.node_name == after.node_name
        and before.spec is after.spec
        and before.labels is after.labels
        and before.namespace == after.namespace
        and (before.deleted is None) == (after.deleted is None)
        and before.status.start_time == after.status.start_time
        and reported(before) == reported(after)
    )
