"""What the API server says, brought into the cluster and the queue in the order that loses no wake-up.

The cluster is changed first and the queue told after, so that a pod which comes back is decided with the
change. A node that goes is the exception: pods that were kept from elsewhere because of it are woken while
it is still known.
"""

from __future__ import annotations

from collections.abc import Container

from stowplan.cluster import Cluster
from stowplan.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    Action,
    Resource,
    cluster_event,
)
from stowplan.framework.waiting import WaitingPods
from stowplan.objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    DeviceClass,
    KubeObject,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ResourceClaim,
    ResourceSlice,
    Service,
    StorageClass,
    VolumeAttachment,
)
from stowplan.queue.queue import SchedulingQueue
from stowplan.queue.updates import node_update_events, pod_update_events

_RESOURCES: dict[type[KubeObject], Resource] = {
    PersistentVolume: Resource.PERSISTENT_VOLUME,
    PersistentVolumeClaim: Resource.PERSISTENT_VOLUME_CLAIM,
    CSINode: Resource.CSI_NODE,
    CSIDriver: Resource.CSI_DRIVER,
    CSIStorageCapacity: Resource.CSI_STORAGE_CAPACITY,
    VolumeAttachment: Resource.VOLUME_ATTACHMENT,
    StorageClass: Resource.STORAGE_CLASS,
    Service: Resource.SERVICE,
    ResourceClaim: Resource.RESOURCE_CLAIM,
    ResourceSlice: Resource.RESOURCE_SLICE,
    DeviceClass: Resource.DEVICE_CLASS,
}
OBJECT_EVENTS = {
    kind: {action: cluster_event(resource, action) for action in (Action.ADD, Action.UPDATE, Action.DELETE)}
    for kind, resource in _RESOURCES.items()
}
"""What is told of objects that are neither pods nor nodes."""


class Feed:
    """Takes in objects of any kind. Pods of other schedulers count where they are, but are never queued."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        scheduler_names: Container[str],
        waiting: WaitingPods | None = None,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._scheduler_names = scheduler_names
        self._waiting = WaitingPods() if waiting is None else waiting

    def observe(self, old: KubeObject | None, new: KubeObject | None) -> None:
        """An object was added (no old one), changed, or removed (no new one)."""
        if old is not None and new is not None:
            if old.uid != new.uid:
                self.observe(old, None)
                self.observe(None, new)
                return
            if old.resource_version and old.resource_version == new.resource_version:
                return
        obj = new if new is not None else old
        if isinstance(obj, Pod):
            self._observe_pod(_running(old), _running(new))
        elif isinstance(obj, Node):
            self._observe_node(old, new)
        elif obj is not None:
            self._observe_other(obj, old, new)

    def _observe_other(self, obj: KubeObject, old: KubeObject | None, new: KubeObject | None) -> None:
        if new is None:
            action = Action.DELETE
            self._cluster.remove(obj)
        else:
            action = Action.ADD if old is None else Action.UPDATE
            self._cluster.add(new)
        events = OBJECT_EVENTS.get(type(obj))
        if events is not None:
            self._queue.move(events[action], old, new)

    # Nodes

    def _observe_node(self, old: KubeObject | None, new: KubeObject | None) -> None:
        if isinstance(new, Node):
            self._cluster.put_node(new)
            if isinstance(old, Node):
                for event in node_update_events(old, new):
                    self._queue.move(event, old, new)
            else:
                self._queue.move(NODE_ADD, None, new)
        elif isinstance(old, Node):
            self._queue.move(NODE_DELETE, old, None)
            self._cluster.remove_node(old.name)

    # Pods

    def _observe_pod(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None:
                self._pod_gone(old)
        elif old is not None and old.node_name:
            self._placed_changed(old, new)
        elif new.node_name:
            self._cluster.put_pod(new)
            self._queue.move(ASSIGNED_POD_ADD, None, new)
            if old is not None and self._is_ours(old):
                self._queue.delete(old)
        elif self._is_ours(new):
            if old is None:
                self._queue.add(new)
            else:
                self._pending_changed(old, new)

    def _is_ours(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name in self._scheduler_names

    def _placed_changed(self, old: Pod, new: Pod) -> None:
        self._cluster.put_pod(new)
        for event in pod_update_events(old, new):
            self._queue.move(event, old, new)

    def _pending_changed(self, old: Pod, new: Pod) -> None:
        if new.uid in self._cluster.assumed:
            if new.terminating and not old.terminating:
                self._assumed_gone(new)
            return
        self._queue.update(old, new)
        promised = old.status.nominated_node_name
        if promised and promised != new.status.nominated_node_name:
            self._promise_ended(old)

    def _pod_gone(self, pod: Pod) -> None:
        placed = self._cluster.pods.get(pod.uid)
        if pod.node_name or (placed is not None and pod.uid not in self._cluster.assumed):
            self._cluster.remove_pod(pod.uid)
            self._queue.move(ASSIGNED_POD_DELETE, pod if pod.node_name else placed, None)
        if pod.node_name or not self._is_ours(pod):
            return
        self._queue.delete(pod)
        if pod.uid in self._cluster.assumed:
            self._assumed_gone(pod)
        elif pod.status.nominated_node_name:
            self._promise_ended(pod)

    def _assumed_gone(self, pod: Pod) -> None:
        """A pod is deleted on its way to its node. One that waits there is turned back, and clears up after
        itself; of one that is being bound only the room is taken back, its binding will fail."""
        assumed = self._cluster.assumed[pod.uid]
        waiting = self._waiting.get(pod.uid)
        if waiting is not None:
            waiting.reject("", "removed")
        else:
            self._cluster.forget(pod.uid)
        self._queue.move(ASSIGNED_POD_DELETE, assumed, None)

    def _promise_ended(self, pod: Pod) -> None:
        """What a pod was promised, it kept from all that are not more important."""
        self._queue.move(ASSIGNED_POD_DELETE, pod, None, up_to_priority=pod.spec.priority)


def _running(obj: KubeObject | None) -> Pod | None:
    """The pod, unless it has run to its end: then it takes no room any more."""
    if not isinstance(obj, Pod) or obj.finished:
        return None
    return obj
