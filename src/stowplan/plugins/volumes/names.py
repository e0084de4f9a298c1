"""What the CSI drivers call the volumes of a pod: by that they are counted against a node's limits."""

from __future__ import annotations

from stowplan.cluster import Cluster
from stowplan.objects import PersistentVolumeClaim, Pod, Volume
from stowplan.plugins.volumes.claims import (
    CLAIM,
    VolumeError,
    claim_class,
    claim_name,
    is_ephemeral,
    not_found,
    ownership_problem,
)
from stowplan.plugins.volumes.migration import (
    BUILT_IN_BY_NAME,
    built_in_of,
    handle_of,
    volume_handle,
)

CLAIMS, VOLUMES = "claim", "volume"

_NOT_MADE_YET = "not made yet"


class MissingClaimError(VolumeError):
    """A pod cannot run before its claim exists."""


class VolumeNames:
    """Looks up volumes, and notes in `seen` what it looked at, so that others know when to look again.

    A name is `driver/handle`. A volume that is still to be made counts under a handle of its own.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.seen: set[tuple[str, str]] = set()

    def of_pending(self, pod: Pod, *, with_csi: bool = True) -> dict[str, str]:
        """The volumes of a pod that is to be placed, each with its driver. `with_csi` is false for nodes of
        which no driver is known: there nothing of the built-in drivers counts. MissingClaimError when a claim
        does not exist."""
        self.seen.clear()
        return self._of_pod(pod, pending=True, with_csi=with_csi)

    def of_placed(self, pod: Pod) -> dict[str, str]:
        """The volumes of a placed pod, each with its driver. Claims that are gone do not count."""
        return self._of_pod(pod, pending=False, with_csi=True)

    def _of_pod(self, pod: Pod, *, pending: bool, with_csi: bool) -> dict[str, str]:
        names = {}
        for volume in pod.spec.volumes:
            name = claim_name(pod, volume)
            if name is None:
                found = _named_in_pod(volume) if with_csi else None
            elif not name:
                raise VolumeError("PersistentVolumeClaim had no name")
            else:
                claim = self._claim(f"{pod.namespace}/{name}")
                if claim is None:
                    if pending:
                        raise MissingClaimError(
                            f"looking up PVC {pod.namespace}/{name}: {not_found(CLAIM, name)}"
                        )
                    continue
                if is_ephemeral(volume) and (problem := ownership_problem(pod, claim)):
                    raise VolumeError(problem)
                found = self._of_claim(claim, with_csi)
            if found is not None:
                driver, handle = found
                names[f"{driver}/{handle}"] = driver
        return names

    def _claim(self, key: str) -> PersistentVolumeClaim | None:
        self.seen.add((CLAIMS, key))
        return self._cluster.claims.get(key)

    def _of_claim(self, claim: PersistentVolumeClaim, with_csi: bool) -> tuple[str, str] | None:
        """The driver of a claim's volume and what it calls it, None when no CSI driver has to do with it."""
        volume = None
        if claim.spec.volume_name:
            self.seen.add((VOLUMES, claim.spec.volume_name))
            volume = self._cluster.volumes.get(claim.spec.volume_name)
        if volume is None:
            return self._of_class(claim, with_csi)
        csi = volume.spec.csi
        if csi is not None:
            return (csi.driver, csi.volume_handle) if csi.driver and csi.volume_handle else None
        built_in = built_in_of(volume.spec)
        if built_in is None or not built_in.migrated or not with_csi:
            return None
        try:
            handle = volume_handle(volume)
        except VolumeError:
            return None
        return (built_in.driver, handle) if handle else None

    def _of_class(self, claim: PersistentVolumeClaim, with_csi: bool) -> tuple[str, str] | None:
        """A claim without a volume counts for the driver that will make one."""
        storage_class = self._cluster.storage_classes.get(claim_class(claim))
        if storage_class is None or not storage_class.provisioner:
            return None
        # No driver can have given this handle to a volume: it holds a NUL.
        handle = f"{_NOT_MADE_YET}\0{claim.key}"
        built_in = BUILT_IN_BY_NAME.get(storage_class.provisioner)
        if built_in is None:
            return storage_class.provisioner, handle
        return (built_in.driver, handle) if built_in.migrated and with_csi else None

    def of_attachments(self, node_name: str, keys: set[str]) -> dict[str, str]:
        """The volumes that are attached to a node, by the keys of their VolumeAttachments."""
        names = {}
        for key in keys:
            attachment = self._cluster.volume_attachments.get(key)
            if attachment is None or attachment.spec.node_name != node_name or not attachment.spec.attacher:
                continue
            volume_name = attachment.spec.source.persistent_volume_name
            if volume_name is None:
                continue
            self.seen.add((VOLUMES, volume_name))
            volume = self._cluster.volumes.get(volume_name)
            if volume is not None and volume.spec.csi is not None:
                driver = attachment.spec.attacher
                names[f"{driver}/{volume.spec.csi.volume_handle}"] = driver
        return names


def _named_in_pod(volume: Volume) -> tuple[str, str] | None:
    built_in = built_in_of(volume)
    if built_in is None or not built_in.migrated:
        return None
    try:
        return built_in.driver, handle_of(volume)
    except VolumeError as problem:
        raise VolumeError(f"converting volume({volume.name}) from inline to csi: {problem}") from None
