"""Carrying out what was decided on volumes: writing it, and waiting until the volume controller is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from stowplan.cluster import Nodes
from stowplan.framework import Handle
from stowplan.objects import Node, PersistentVolume, PersistentVolumeClaim, Pod
from stowplan.objects.meta import TypedReference
from stowplan.plugins.volumes.assumed import Assumed, same_version
from stowplan.plugins.volumes.claims import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    VolumeError,
    fully_bound,
    not_found,
)
from stowplan.plugins.volumes.finding import affinity_once_moved
from stowplan.plugins.volumes.migration import built_in_of, migrated_on
from stowplan.plugins.volumes.reach import volume_reach
from stowplan.plugins.volumes.shelves import is_promised_to

TIMED_OUT = "context deadline exceeded"
_FIRST_LOOK = 0.05
_LAST_LOOK = 1.0


@dataclass
class Binding:
    """A claim gets a volume that exists: the volume is made to name the claim."""

    claim: PersistentVolumeClaim
    before: PersistentVolume
    after: PersistentVolume
    written: Any = None
    """What the API server answered."""

    @property
    def patch(self) -> dict[str, Any]:
        claim = self.claim
        return _patch(
            self.before,
            self.after,
            {
                "claimRef": {
                    "kind": "PersistentVolumeClaim",
                    "apiVersion": "v1",
                    "namespace": claim.namespace,
                    "name": claim.name,
                    "uid": claim.uid,
                    "resourceVersion": claim.resource_version,
                }
            },
        )


@dataclass
class Provision:
    """A volume is to be made for a claim: the claim is made to name the node."""

    before: PersistentVolumeClaim
    after: PersistentVolumeClaim
    written: Any = None

    @property
    def patch(self) -> dict[str, Any]:
        return _patch(self.before, self.after, None)


@dataclass
class Reservation:
    """What was decided for the volumes of one pod."""

    bindings: list[Binding] = field(default_factory=list)
    provisions: list[Provision] = field(default_factory=list)


def bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume as it is when it names the claim; the same object when it does already."""
    promised = volume.spec.claim_ref if is_promised_to(volume, claim) else None
    if promised is not None and promised.uid == claim.uid:
        return volume
    reference = TypedReference(
        api_version="v1",
        kind="PersistentVolumeClaim",
        namespace=claim.namespace,
        name=claim.name,
        uid=claim.uid,
    )
    by_us = {BOUND_BY_CONTROLLER: "yes"} if promised is None else {}
    return msgspec.structs.replace(
        volume,
        spec=msgspec.structs.replace(volume.spec, claim_ref=reference),
        annotations={**by_us, **volume.annotations},
    )


def selecting(claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
    """The claim as it is when its volume is to be made for a node."""
    return msgspec.structs.replace(claim, annotations={**claim.annotations, SELECTED_NODE: node_name})


def _patch(
    before: PersistentVolume | PersistentVolumeClaim,
    after: PersistentVolume | PersistentVolumeClaim,
    spec: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Only what changes: records do not hold the whole object. The version makes a conflict of it when
    somebody else has written in between."""
    metadata: dict[str, Any] = {"resourceVersion": before.resource_version}
    new = {key: text for key, text in after.annotations.items() if before.annotations.get(key) != text}
    if new:
        metadata["annotations"] = new
    return {"metadata": metadata} if spec is None else {"metadata": metadata, "spec": spec}


class VolumeWriter:
    """Writes reservations, and sees them through."""

    def __init__(
        self,
        handle: Handle,
        volumes: Assumed[PersistentVolume],
        claims: Assumed[PersistentVolumeClaim],
        timeout: float,
    ) -> None:
        self._handle = handle
        self._volumes = volumes
        self._claims = claims
        self._timeout = timeout

    def take_back(self, reservation: Reservation) -> None:
        """Nothing that is not yet written is assumed any more; the rest will come back from the server."""
        for binding in reservation.bindings:
            if binding.written is None:
                self._volumes.restore(binding.after)
        for provision in reservation.provisions:
            if provision.written is None:
                self._claims.restore(provision.after)

    async def carry_out(self, reservation: Reservation, pod: Pod, node_name: str) -> None:
        """Writes all, then waits until every claim is bound; VolumeError when that will not happen."""
        try:
            await self._write(reservation)
        except BaseException:
            self.take_back(reservation)
            raise
        deadline = self._handle.now() + self._timeout
        pause = _FIRST_LOOK
        while (left := deadline - self._handle.now()) > 0:
            await self._handle.sleep(min(pause, left))
            pause = min(2 * pause, _LAST_LOOK)
            try:
                if self._all_bound(reservation, pod, node_name):
                    return
            except VolumeError as problem:
                raise VolumeError(f"binding volumes: {problem}") from None
        raise VolumeError(f"binding volumes: {TIMED_OUT}")

    async def _write(self, reservation: Reservation) -> None:
        client = self._handle.client
        for binding in reservation.bindings:
            if binding.after is not binding.before:
                binding.written = await client.patch(binding.before, binding.patch) or True
        for provision in reservation.provisions:
            provision.written = await client.patch(provision.before, provision.patch) or True

    def _all_bound(self, reservation: Reservation, pod: Pod, node_name: str) -> bool:
        cluster = self._handle.cluster
        row = cluster.row_of(node_name)
        if row is None:
            raise VolumeError(f'failed to get node "{node_name}": {not_found("node", node_name)}')
        if pod.uid not in cluster.pods:
            raise VolumeError(f"pod does not exist any more: {not_found('pod', pod.name)}")
        nodes = Nodes(cluster, np.array([row]))
        return all(self._is_bound(binding, nodes) for binding in reservation.bindings) and all(
            self._is_provided(provision, nodes) for provision in reservation.provisions
        )

    def _is_bound(self, binding: Binding, nodes: Nodes) -> bool:
        volume = self._stored_volume(binding.before.name)
        if volume is None:
            problem = not_found("persistentvolumes", binding.before.name)
            raise VolumeError(f"failed to check binding: {problem}")
        claim = self._stored_claim(binding.claim.key, "failed to check binding")
        if _older(volume, binding.before, binding.written):
            return False
        self._check_reach(volume, nodes)
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            raise VolumeError(f'ClaimRef got reset for pv "{volume.name}"')
        return fully_bound(claim)

    def _is_provided(self, provision: Provision, nodes: Nodes) -> bool:
        claim = self._stored_claim(provision.before.key, "failed to check provisioning pvc")
        if _older(claim, provision.before, provision.written):
            return False
        if not claim.annotations:
            raise VolumeError(f'selectedNode annotation reset for PVC "{claim.name}"')
        if claim.annotations.get(SELECTED_NODE, "") != nodes[0].name:
            raise VolumeError(f'provisioning failed for PVC "{claim.name}"')
        if claim.spec.volume_name:
            volume = self._stored_volume(claim.spec.volume_name)
            if volume is None:
                return False
            self._check_reach(volume, nodes)
        return fully_bound(claim)

    def _stored_volume(self, name: str) -> PersistentVolume | None:
        return self._volumes.table.get(name)

    def _stored_claim(self, key: str, doing: str) -> PersistentVolumeClaim:
        claim = self._claims.table.get(key)
        if claim is None:
            raise VolumeError(f"{doing}: {not_found('persistentvolumeclaims', key)}")
        return claim

    def _check_reach(self, volume: PersistentVolume, nodes: Nodes) -> None:
        """The node's labels, or the volume, may have changed since."""
        node: Node = nodes[0].node
        affinity = volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None
        built_in = built_in_of(volume.spec)
        if built_in is not None and migrated_on(self._handle.cluster.csi_nodes.get(node.name), built_in):
            affinity = affinity_once_moved(volume, built_in)
        if not volume_reach(affinity).mask(nodes).all():
            raise VolumeError(
                f'pv "{volume.name}" node affinity doesn\'t match node "{node.name}": '
                "no matching NodeSelectorTerms"
            )


def _older(
    stored: PersistentVolume | PersistentVolumeClaim,
    before: PersistentVolume | PersistentVolumeClaim,
    written: Any,
) -> bool:
    """Whether what was written has not come back from the API server yet."""
    if written is None:
        return False
    try:
        return int(stored.resource_version) < int(_version_of(written))
    except ValueError:
        return same_version(stored, before)


def _version_of(answer: Any) -> str:
    """The version of what the API server answered, be it a record or plain data, "" when it does not say."""
    if isinstance(answer, Mapping):
        return str(answer.get("metadata", {}).get("resourceVersion", ""))
    return str(getattr(answer, "resource_version", ""))
