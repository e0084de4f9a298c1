"""Which kinds of object the plugins of profiles look at: what has to be watched, and what may be read.

Every scheduler looks at nodes and pods. Plugins of other packages are not known here: they look at what is
there because of others, or need a client of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from stowplan.cluster.extended import may_be_device
from stowplan.framework.profile import ProfilePlan
from stowplan.objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    DeviceClass,
    KubeObject,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    ResourceClaim,
    ResourceSlice,
    Service,
    StatefulSet,
    StorageClass,
    VolumeAttachment,
)

Kinds: TypeAlias = tuple[type[KubeObject], ...]

ALWAYS_READ: Final[Kinds] = (Node, Pod)
"""What every scheduler looks at."""

_VOLUMES: Final[Kinds] = (PersistentVolumeClaim, PersistentVolume, StorageClass)
_OWNERS: Final[Kinds] = (Service, ReplicationController, ReplicaSet, StatefulSet)


def _spread(args: Any) -> Kinds:
    """Only default constraints ask what a pod belongs to."""
    return _OWNERS if args.defaulting_type == "System" or args.default_constraints else ()


def _fit(args: Any) -> Kinds:
    """A class of devices may stand behind an extended resource that a pod asks for."""
    return (DeviceClass, *_devices_scored(args.strategy.resources))


def _balanced(args: Any) -> Kinds:
    devices = _devices_scored(args.resources)
    return (DeviceClass, *devices) if devices else ()


def _devices_scored(resources: Iterable[Any]) -> Kinds:
    """Devices are counted where nodes are scored by an extended resource."""
    counted = any(may_be_device(resource.name) for resource in resources)
    return (ResourceSlice, ResourceClaim) if counted else ()


_READS: Final[Mapping[str, Kinds | Callable[[Any], Kinds]]] = {
    "SchedulingGates": (),
    "PrioritySort": (),
    "NodeUnschedulable": (),
    "NodeName": (),
    "TaintToleration": (),
    "NodeAffinity": (),
    "NodePorts": (),
    "NodeResourcesFit": _fit,
    "VolumeRestrictions": (PersistentVolumeClaim,),
    "NodeVolumeLimits": (*_VOLUMES, CSINode, VolumeAttachment),
    "VolumeBinding": (*_VOLUMES, CSINode, CSIDriver, CSIStorageCapacity),
    "VolumeZone": _VOLUMES,
    "PodTopologySpread": _spread,
    "InterPodAffinity": (Namespace,),
    "DynamicResources": (ResourceClaim, ResourceSlice, DeviceClass),
    "DefaultPreemption": (PodDisruptionBudget,),
    "NodeResourcesBalancedAllocation": _balanced,
    "ImageLocality": (),
    "DefaultBinder": (),
    "NodeDeclaredFeatures": (),
}

OWN_PLUGINS: Final = frozenset(_READS)
"""The plugins of this package, about which all is known."""


def kinds_read(profiles: Iterable[ProfilePlan]) -> dict[type[KubeObject], tuple[str, ...]]:
    """Every kind that is looked at besides `ALWAYS_READ`, with the plugins that do."""
    readers: dict[type[KubeObject], dict[str, None]] = {}
    for profile in profiles:
        for plugin, args in profile.args.items():
            reads = _READS.get(plugin, ())
            for kind in reads(args) if callable(reads) else reads:
                readers.setdefault(kind, {})[plugin] = None
    return {kind: tuple(plugins) for kind, plugins in readers.items()}
