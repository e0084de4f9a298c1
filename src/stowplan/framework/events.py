"""What happens in a cluster, as far as it may make a rejected pod schedulable."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntFlag, StrEnum
from typing import Any, NamedTuple, TypeAlias

from stowplan.objects import Pod


class Resource(StrEnum):
    """What it happened to. A pod is a pod; whether it has a node (assigned) or not says more."""

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULABLE_POD = "UnschedulablePod"
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    SERVICE = "Service"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    WILDCARD = "*"


class Action(IntFlag):
    """What happened. The order of the bits is upstream's and has a meaning: see `ClusterEvent.matches`."""

    ADD = 1 << 0
    DELETE = 1 << 1
    UPDATE_NODE_ALLOCATABLE = 1 << 2
    UPDATE_NODE_LABEL = 1 << 3
    UPDATE_NODE_TAINT = 1 << 4
    UPDATE_NODE_CONDITION = 1 << 5
    UPDATE_NODE_ANNOTATION = 1 << 6
    UPDATE_NODE_DECLARED_FEATURE = 1 << 7
    UPDATE_POD_LABEL = 1 << 8
    UPDATE_POD_SCALE_DOWN = 1 << 9
    UPDATE_POD_TOLERATION = 1 << 10
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 1 << 11
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 1 << 12
    UPDATE = (1 << 13) - 1 - ADD - DELETE
    ALL = (1 << 13) - 1


class ClusterEvent(NamedTuple):
    """Something that happened; `label` names it in metrics and logs."""

    resource: Resource
    action: Action
    label: str

    def matches(self, registered: EventHint) -> bool:
        """Whether a registration asks for this event. A more general event than the registered one does
        not count: a plain Update does not match a registration for label updates."""
        if registered.resource is Resource.WILDCARD:
            return True
        same = registered.resource == self.resource or (
            registered.resource is Resource.POD
            and self.resource in (Resource.ASSIGNED_POD, Resource.UNSCHEDULABLE_POD)
        )
        return same and bool(registered.action & self.action) and self.action <= registered.action


Hint: TypeAlias = Callable[[Pod, Any, Any], bool]
"""Given a rejected pod and an object before and after the event (None where there is none): may the pod be
schedulable now?"""


class EventHint(NamedTuple):
    """A plugin's registration: these events may help pods that it rejected, if the hint says so."""

    resource: Resource
    action: Action
    hint: Hint | None = None
    """None: always."""
    by_shape: bool = False
    """Of the rejected pod the hint looks at nothing but its shape: namespace, labels, spec and controller.
    Thousands of parked pods of one shape are then asked about once."""


def cluster_event(resource: Resource, action: Action) -> ClusterEvent:
    """The event with its usual label, such as `NodeAdd` or `AssignedPodUpdatePodLabel`."""
    name = action.name or ""
    return ClusterEvent(resource, action, resource + "".join(word.capitalize() for word in name.split("_")))


NODE_ADD = cluster_event(Resource.NODE, Action.ADD)
NODE_DELETE = cluster_event(Resource.NODE, Action.DELETE)
ASSIGNED_POD_ADD = cluster_event(Resource.ASSIGNED_POD, Action.ADD)
ASSIGNED_POD_DELETE = cluster_event(Resource.ASSIGNED_POD, Action.DELETE)
UNSCHEDULABLE_TIMEOUT = ClusterEvent(Resource.WILDCARD, Action.ALL, "UnschedulableTimeout")
FORCE_ACTIVATE = ClusterEvent(Resource.WILDCARD, Action.ALL, "ForceActivate")
