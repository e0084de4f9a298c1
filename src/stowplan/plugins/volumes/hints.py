"""What may bring back a pod that was rejected for volumes that it must get or attach.

Claims of ephemeral volumes are named after their pod, so hints about claims look at more than its shape.
"""

from __future__ import annotations

from stowplan.framework.events import Action, EventHint, Resource
from stowplan.objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Pod,
    StorageClass,
    Volume,
    VolumeAttachment,
)
from stowplan.plugins.volumes.capacity import largest_volume
from stowplan.plugins.volumes.claims import uses_claim
from stowplan.plugins.volumes.migration import MIGRATED_PLUGINS, built_in_of
from stowplan.plugins.waking import takes_room

_ADDED_OR_CHANGED = Action.ADD | Action.UPDATE


def may_be_attached(volume: Volume) -> bool:
    """Whether a volume of a pod may be one of a CSI driver, as far as the pod tells."""
    return (
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or built_in_of(volume) is not None
    )


# ---------------------------------------------------------------- NodeVolumeLimits


def _detaches_volumes(pod: Pod, old: Pod, new: None) -> bool:
    return takes_room(old) and any(map(may_be_attached, old.spec.volumes))


def _limit_grew(pod: Pod, old: CSINode | None, new: CSINode) -> bool:
    before = {} if old is None else _limits(old)
    return any(limit > before.get(driver, 0) for driver, limit in _limits(new).items())


def _limits(csi_node: CSINode) -> dict[str, int]:
    """By driver; as upstream has it, no limit counts for 0 here."""
    return {
        driver.name: (driver.allocatable.count or 0) if driver.allocatable is not None else 0
        for driver in csi_node.spec.drivers
    }


def _was_detached(pod: Pod, old: VolumeAttachment, new: None) -> bool:
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            return True
        built_in = built_in_of(volume)
        if built_in is not None and built_in.driver == old.spec.attacher:
            return True
    return False


LIMITS_EVENTS = (
    EventHint(Resource.CSI_NODE, Action.ADD),
    EventHint(Resource.CSI_NODE, Action.UPDATE, _limit_grew, by_shape=True),
    EventHint(Resource.POD, Action.DELETE, _detaches_volumes, by_shape=True),
    EventHint(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD, uses_claim),
    EventHint(Resource.VOLUME_ATTACHMENT, Action.DELETE, _was_detached, by_shape=True),
)


# ---------------------------------------------------------------- VolumeBinding


def _allows_elsewhere(pod: Pod, old: StorageClass | None, new: StorageClass) -> bool:
    return old is None or old.allowed_topologies != new.allowed_topologies


def _drivers_migrated(pod: Pod, old: CSINode | None, new: CSINode) -> bool:
    """No annotation is as good as an empty one."""
    if old is None:
        return True
    return old.annotations.get(MIGRATED_PLUGINS, "") != new.annotations.get(MIGRATED_PLUGINS, "")


def _capacity_does_not_count(pod: Pod, old: CSIDriver | None, new: CSIDriver) -> bool:
    counted = old is not None and bool(old.spec.storage_capacity)
    if not counted or new.spec.storage_capacity:
        return False
    return any(volume.csi is not None and volume.csi.driver == new.name for volume in pod.spec.volumes)


def _has_more_room(pod: Pod, old: CSIStorageCapacity | None, new: CSIStorageCapacity) -> bool:
    if old is None:
        return True
    before, after = largest_volume(old), largest_volume(new)
    return after is not None and (before is None or after > before)


BINDING_EVENTS = (
    EventHint(Resource.STORAGE_CLASS, _ADDED_OR_CHANGED, _allows_elsewhere, by_shape=True),
    EventHint(Resource.PERSISTENT_VOLUME_CLAIM, _ADDED_OR_CHANGED, uses_claim),
    EventHint(Resource.PERSISTENT_VOLUME, _ADDED_OR_CHANGED),
    EventHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
    EventHint(Resource.CSI_NODE, _ADDED_OR_CHANGED, _drivers_migrated, by_shape=True),
    EventHint(Resource.CSI_DRIVER, Action.UPDATE, _capacity_does_not_count, by_shape=True),
    EventHint(Resource.CSI_STORAGE_CAPACITY, _ADDED_OR_CHANGED, _has_more_room, by_shape=True),
)
