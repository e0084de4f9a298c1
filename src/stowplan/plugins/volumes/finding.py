"""Can the claims of a pod be served from a node, and with what: found for many nodes at once.

Bound claims must have volumes that can be reached. Each unbound one gets a free volume or, where there is
none, one that its class can make there, if there is room for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from stowplan.cluster import Cluster, IntColumn, Mask, Nodes
from stowplan.framework import Status, unresolvable
from stowplan.objects import NodeSelector, PersistentVolume, PersistentVolumeClaim, StorageClass
from stowplan.plugins.volumes.assumed import Assumed
from stowplan.plugins.volumes.capacity import StoragePools
from stowplan.plugins.volumes.claims import (
    NO_PROVISIONER,
    SELECTED_NODE,
    VolumeError,
    requested_size,
)
from stowplan.plugins.volumes.matching import NO_VOLUME, Matching
from stowplan.plugins.volumes.migration import (
    BuiltIn,
    built_in_of,
    migrated_affinity,
    migrated_on,
    volume_handle,
)
from stowplan.plugins.volumes.reach import topology_reach, volume_reach
from stowplan.plugins.volumes.shelves import Shelves, reach_of

OUT_OF_REACH, NOTHING_TO_BIND, NO_ROOM, VOLUME_GONE = 1, 2, 4, 8
_REASONS = {
    OUT_OF_REACH: "node(s) didn't match PersistentVolume's node affinity",
    NOTHING_TO_BIND: "node(s) didn't find available persistent volumes to bind",
    NO_ROOM: "node(s) did not have enough free storage",
    VOLUME_GONE: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}


def status_of(code: int) -> Status:
    """A code of `Finding.codes` in words."""
    return unresolvable(*(reason for bit, reason in _REASONS.items() if code & bit))


class Unbound(NamedTuple):
    """A claim that waits for its pod to be placed."""

    claim: PersistentVolumeClaim
    storage_class: StorageClass


@dataclass
class PodClaims:
    """The claims of a pod, in order."""

    bound: list[PersistentVolumeClaim] = field(default_factory=list)
    unbound: list[Unbound] = field(default_factory=list)


@dataclass
class Finding:
    """What was found for every node: a sum of reasons against it, 0 where there is none."""

    codes: IntColumn
    matching: Matching
    choices: list[tuple[PersistentVolumeClaim, IntColumn]] = field(default_factory=list)
    """Claims that may get a volume that exists, with its number."""
    provisions: list[tuple[PersistentVolumeClaim, Mask]] = field(default_factory=list)
    """Claims that may get a volume made for them, and where."""


class VolumeFinder:
    """Finds volumes among those of the cluster, as they will be once earlier decisions are written."""

    def __init__(self, cluster: Cluster, volumes: Assumed[PersistentVolume]) -> None:
        self._cluster = cluster
        self._volumes = volumes
        self._shelves = Shelves(volumes)
        self._pools = StoragePools(cluster.storage_capacities)

    def find(self, claims: PodClaims, nodes: Nodes) -> Finding:
        codes = self._check_bound(claims.bound, nodes) if claims.bound else np.zeros(len(nodes), np.int64)
        found = Finding(codes, Matching(self._shelves, nodes))
        if claims.unbound:
            self._serve_unbound(claims.unbound, nodes, found)
        return found

    # Bound claims

    def _check_bound(self, claims: list[PersistentVolumeClaim], nodes: Nodes) -> IntColumn:
        """The first claim that cannot be served decides."""
        codes = np.zeros(len(nodes), np.int64)
        for claim in claims:
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None:
                codes[codes == 0] = VOLUME_GONE
                break
            built_in = built_in_of(volume.spec)
            if built_in is None:
                reach = reach_of(volume)
                if not reach.anywhere:
                    codes[(codes == 0) & ~reach.mask(nodes)] = OUT_OF_REACH
            else:
                self._check_migrated(volume, built_in, nodes, codes)
        return codes

    def _check_migrated(
        self, volume: PersistentVolume, built_in: BuiltIn, nodes: Nodes, codes: IntColumn
    ) -> None:
        """On nodes that have moved to the CSI driver, its names of zones count."""
        csi_nodes = self._cluster.csi_nodes
        moved: Mask = np.fromiter(
            (migrated_on(csi_nodes.get(name), built_in) for name in nodes.names), np.bool_, len(nodes)
        )
        reached = reach_of(volume).mask(nodes)
        if (moved & (codes == 0)).any():
            reached_by_csi = volume_reach(affinity_once_moved(volume, built_in)).mask(nodes)
            reached = np.where(moved, reached_by_csi, reached)
        codes[(codes == 0) & ~reached] = OUT_OF_REACH

    # Unbound claims

    def _serve_unbound(self, unbound: list[Unbound], nodes: Nodes, found: Finding) -> None:
        selected = [each for each in unbound if SELECTED_NODE in each.claim.annotations]
        open_: Mask = np.ones(len(nodes), np.bool_)
        for each in selected:
            row = self._cluster.row_of(each.claim.annotations[SELECTED_NODE])
            open_ &= nodes.mask([] if row is None else [row])
        found.codes[~open_] += NOTHING_TO_BIND
        if not open_.any():
            return
        to_provision = [(each, open_) for each in selected]
        to_match = [each for each in unbound if SELECTED_NODE not in each.claim.annotations]
        for each in sorted(to_match, key=lambda each: requested_size(each.claim) or 0):
            choice = found.matching.choose(each.claim)
            found.choices.append((each.claim, choice))
            to_provision.append((each, open_ & (choice == NO_VOLUME)))
        self._check_provisions(to_provision, nodes, found)

    def _check_provisions(
        self, to_provision: list[tuple[Unbound, Mask]], nodes: Nodes, found: Finding
    ) -> None:
        """The first claim for which no volume can be made decides."""
        fine: Mask = np.ones(len(nodes), np.bool_)
        for each, wanted in to_provision:
            found.provisions.append((each.claim, wanted))
            asked = wanted & fine
            if not asked.any():
                continue
            makeable = _where_makeable(each.storage_class, nodes)
            if makeable is not None:
                refused = asked & ~makeable
                found.codes[refused] += NOTHING_TO_BIND
                fine &= ~refused
            room = self._room_for(each, nodes)
            if room is not None:
                full = asked & fine & ~room
                found.codes[full] += NO_ROOM
                fine &= ~full

    def _room_for(self, unbound: Unbound, nodes: Nodes) -> Mask | None:
        """The nodes with room for a new volume, None when nobody counts: the claim names no size, or the
        driver does not report what is left."""
        size = requested_size(unbound.claim)
        driver = self._cluster.csi_drivers.get(unbound.storage_class.provisioner)
        if size is None or driver is None or not driver.spec.storage_capacity:
            return None
        return self._pools.with_room(unbound.storage_class.name, size, nodes)


def _where_makeable(storage_class: StorageClass, nodes: Nodes) -> Mask | None:
    """The nodes for which the class can make volumes, None for all."""
    if storage_class.provisioner in ("", NO_PROVISIONER):
        return np.zeros(len(nodes), np.bool_)
    allowed = topology_reach(storage_class.allowed_topologies)
    return None if allowed.anywhere else allowed.mask(nodes)


def affinity_once_moved(volume: PersistentVolume, built_in: BuiltIn) -> NodeSelector | None:
    """From where the CSI driver reaches a volume of a built-in driver; it must know what to call it."""
    try:
        volume_handle(volume)
    except VolumeError as problem:
        raise VolumeError(f"could not translate pv: {problem}") from None
    return migrated_affinity(volume, built_in)
