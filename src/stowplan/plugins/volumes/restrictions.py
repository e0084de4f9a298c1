"""VolumeRestrictions: disks that one node may hold only once, and claims that one pod may use only once.

A disk named in the pod itself (GCE, EBS, iSCSI, Ceph RBD) cannot go to a node where a pod has it already;
where the disk allows it, they may share it as long as all only read. A claim with the access mode
ReadWriteOncePod that any placed pod uses keeps other pods from every node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from stowplan.cluster import Mask, NodeRow, Nodes
from stowplan.cluster.volumeusers import claim_key, disk_keys
from stowplan.framework import (
    SKIP,
    CycleState,
    FilterPlugin,
    PreFilterPlugin,
    Reads,
    Status,
    Verdict,
    unresolvable,
    unschedulable,
)
from stowplan.framework.events import Action, EventHint, Resource
from stowplan.objects import Pod, Volume
from stowplan.plugins.volumes.claims import CLAIM, named_claims, names_claim, not_found

DISK_CONFLICT = unschedulable("node(s) had no available disk")
CLAIM_CONFLICT = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use "
    "by another pod"
)
READ_WRITE_ONCE_POD = "ReadWriteOncePod"


@dataclass
class _State:
    """The pod's claims for one pod only, and how many uses of them stand in its way."""

    exclusive: frozenset[str]
    uses: int

    def clone(self) -> _State:
        return _State(self.exclusive, self.uses)


class VolumeRestrictions(PreFilterPlugin, FilterPlugin):
    """Keeps pods apart that cannot share a disk or a claim."""

    reads = Reads.CLUSTER
    shaped_by_template = True

    def concerns(self, pod: Pod) -> bool:
        return any(v.persistent_volume_claim is not None or any(disk_keys(v)) for v in pod.spec.volumes)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        if not pod.spec.volumes:
            return SKIP
        cluster = self.handle.cluster
        exclusive = set()
        for name in named_claims(pod):
            claim = cluster.claims.get(f"{pod.namespace}/{name}")
            if claim is None:
                return unresolvable(not_found(CLAIM, name))
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                exclusive.add(name)
        uses = sum(1 for name in exclusive if cluster.volume_users.rows(claim_key(pod.namespace, name)))
        if not uses and not any(any(disk_keys(volume)) for volume in pod.spec.volumes):
            return SKIP
        state[_State] = _State(frozenset(exclusive), uses)
        return None

    def add_pod(self, state: CycleState, pod: Pod, other: Pod, node: NodeRow) -> None:
        noted: _State = state[_State]
        noted.uses += _uses_of(noted.exclusive, other)

    def remove_pod(self, state: CycleState, pod: Pod, other: Pod, node: NodeRow) -> None:
        noted: _State = state[_State]
        noted.uses -= _uses_of(noted.exclusive, other)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        if disks_conflict(pod, node):
            return DISK_CONFLICT
        return CLAIM_CONFLICT if state[_State].uses > 0 else None

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        taken = nodes.mask([row for row in self._rows_with_disks(pod) if self._conflict_on(pod, row)])
        everywhere: Mask = np.full(len(nodes), state[_State].uses > 0)
        return Verdict.first_of((taken, DISK_CONFLICT), (everywhere, CLAIM_CONFLICT))

    def _rows_with_disks(self, pod: Pod) -> set[int]:
        """The few rows where some pod uses a disk that this pod names too."""
        users = self.handle.cluster.volume_users
        return {row for volume in pod.spec.volumes for key in disk_keys(volume) for row in users.rows(key)}

    def _conflict_on(self, pod: Pod, row: int) -> bool:
        return disks_conflict(pod, NodeRow(self.handle.cluster, row))

    def events(self) -> Sequence[EventHint]:
        return (
            EventHint(Resource.POD, Action.DELETE, _gives_up_a_volume, by_shape=True),
            EventHint(Resource.NODE, Action.ADD),
            EventHint(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD, names_claim, by_shape=True),
        )


def _gives_up_a_volume(pod: Pod, old: Pod, new: None) -> bool:
    if old.namespace != pod.namespace:
        return False
    if not set(named_claims(pod)).isdisjoint(named_claims(old)):
        return True
    return any(_same_disk(mine, theirs) for mine in pod.spec.volumes for theirs in old.spec.volumes)


def _uses_of(exclusive: frozenset[str], other: Pod) -> int:
    # As upstream has it, claims are compared by name here, whatever the namespace of the other pod.
    return sum(1 for name in named_claims(other) if name in exclusive)


def disks_conflict(pod: Pod, node: NodeRow) -> bool:
    """Whether a pod on the node has a disk that this pod wants too and cannot share."""
    wanted = [volume for volume in pod.spec.volumes if any(disk_keys(volume))]
    if not wanted:
        return False
    return any(
        _same_disk(mine, theirs) for other in node.pods for theirs in other.spec.volumes for mine in wanted
    )


def _same_disk(mine: Volume, theirs: Volume) -> bool:
    """Whether two volumes are one disk that cannot be shared. EBS disks cannot even be read by two."""
    gce, other_gce = mine.gce_persistent_disk, theirs.gce_persistent_disk
    if gce and other_gce and gce.pd_name == other_gce.pd_name and _one_writes(gce, other_gce):
        return True
    ebs, other_ebs = mine.aws_elastic_block_store, theirs.aws_elastic_block_store
    if ebs and other_ebs and ebs.volume_id == other_ebs.volume_id:
        return True
    iscsi, other_iscsi = mine.iscsi, theirs.iscsi
    if iscsi and other_iscsi and iscsi.iqn == other_iscsi.iqn and _one_writes(iscsi, other_iscsi):
        return True
    rbd, other_rbd = mine.rbd, theirs.rbd
    if rbd is None or other_rbd is None or (rbd.pool, rbd.image) != (other_rbd.pool, other_rbd.image):
        return False
    return _one_writes(rbd, other_rbd) and not set(rbd.monitors).isdisjoint(other_rbd.monitors)


class _Readable(Protocol):
    @property
    def read_only(self) -> bool: ...


def _one_writes(disk: _Readable, other: _Readable) -> bool:
    return not (disk.read_only and other.read_only)
