"""Who uses which claim or disk: sparse, because a volume is used by few pods."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeAlias

from stowplan.objects import Pod, Volume

VolumeKey: TypeAlias = tuple[str, ...]


def claim_key(namespace: str, name: str) -> VolumeKey:
    return "claim", namespace, name


def disk_keys(volume: Volume) -> Iterator[VolumeKey]:
    """What a disk that is named in the pod itself is known by; pods with equal keys may be in each other's
    way, pods without one in common are not."""
    if volume.gce_persistent_disk is not None:
        yield "gce", volume.gce_persistent_disk.pd_name
    if volume.aws_elastic_block_store is not None:
        yield "ebs", volume.aws_elastic_block_store.volume_id
    if volume.iscsi is not None:
        yield "iscsi", volume.iscsi.iqn
    if volume.rbd is not None:
        yield "rbd", volume.rbd.pool, volume.rbd.image


class VolumeUsers:
    """For each claim and disk, the rows with pods that use it. Claims of ephemeral volumes are left out:
    each has one user only."""

    def __init__(self) -> None:
        self._rows: dict[VolumeKey, dict[int, int]] = {}

    def add(self, pod: Pod, row: int, amount: int) -> None:
        """A pod came to a row (amount 1) or left it (-1)."""
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is not None:
                self._count(claim_key(pod.namespace, volume.persistent_volume_claim.claim_name), row, amount)
            for key in disk_keys(volume):
                self._count(key, row, amount)

    def _count(self, key: VolumeKey, row: int, amount: int) -> None:
        rows = self._rows.setdefault(key, {})
        rows[row] = rows.get(row, 0) + amount
        if not rows[row]:
            del rows[row]
            if not rows:
                del self._rows[key]

    def rows(self, key: VolumeKey) -> Collection[int]:
        """The rows where a pod uses it."""
        return self._rows.get(key, {}).keys()
