"""Volumes of the old built-in drivers, seen as volumes of the CSI drivers that have replaced them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from stowplan.objects import (
    CSINode,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    Volume,
)
from stowplan.objects.storage import PersistentVolumeSpec
from stowplan.plugins.volumes.claims import VolumeError
from stowplan.plugins.volumes.zone import BETA_REGION, BETA_ZONE, REGION, ZONE

MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
_UNSPECIFIED = "UNSPECIFIED"
_EBS_ID = re.compile(r"vol-[^/]*")


class BuiltIn(NamedTuple):
    """A built-in driver: the field of its source, its name, and the CSI driver that does its work now."""

    field: str
    name: str
    driver: str
    migrated: bool
    """Whether its volumes count and are reached as the CSI driver's."""
    topology_key: str = ""
    """The label by which the CSI driver names zones."""


BUILT_INS = (
    BuiltIn(
        "gce_persistent_disk", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", True, "topology.gke.io/zone"
    ),
    BuiltIn(
        "aws_elastic_block_store",
        "kubernetes.io/aws-ebs",
        "ebs.csi.aws.com",
        True,
        "topology.ebs.csi.aws.com/zone",
    ),
    BuiltIn(
        "cinder",
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        True,
        "topology.cinder.csi.openstack.org/zone",
    ),
    BuiltIn("azure_disk", "kubernetes.io/azure-disk", "disk.csi.azure.com", True),
    BuiltIn("portworx_volume", "kubernetes.io/portworx-volume", "pxd.portworx.com", True),
    BuiltIn("azure_file", "kubernetes.io/azure-file", "file.csi.azure.com", False),
    BuiltIn("vsphere_volume", "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", False),
)
BUILT_IN_BY_NAME: Mapping[str, BuiltIn] = {built_in.name: built_in for built_in in BUILT_INS}


def built_in_of(source: Volume | PersistentVolumeSpec) -> BuiltIn | None:
    """The built-in driver of a volume, None when it has none that was ever replaced."""
    for built_in in BUILT_INS:
        if getattr(source, built_in.field) is not None:
            return built_in
    return None


def migrated_on(csi_node: CSINode | None, built_in: BuiltIn) -> bool:
    """Whether a node says that the CSI driver does the work there."""
    if csi_node is None or not built_in.migrated:
        return False
    return built_in.name in csi_node.annotations.get(MIGRATED_PLUGINS, "").split(",")


def handle_of(source: Volume | PersistentVolumeSpec, zone_label: str = "") -> str:
    """What the CSI driver calls a volume of a migrated built-in driver. `zone_label` is that of a persistent
    volume, "" for a volume that a pod names itself."""
    if source.gce_persistent_disk is not None:
        return _gce_handle(source.gce_persistent_disk.pd_name, zone_label)
    if source.aws_elastic_block_store is not None:
        return _ebs_handle(source.aws_elastic_block_store.volume_id)
    if source.cinder is not None:
        return source.cinder.volume_id
    if source.azure_disk is not None:
        kind = source.azure_disk.kind
        if kind is not None and kind.lower() != "managed":
            raise VolumeError(f"kind({kind}) is not supported in csi migration")
        return source.azure_disk.disk_uri
    if source.portworx_volume is not None:
        return source.portworx_volume.volume_id
    raise VolumeError("the volume has no source that is migrated to CSI")


def volume_handle(volume: PersistentVolume) -> str:
    """What the CSI driver calls a persistent volume of a migrated built-in driver."""
    return handle_of(volume.spec, volume.labels.get(BETA_ZONE) or volume.labels.get(ZONE, ""))


def _gce_handle(disk: str, zone_label: str) -> str:
    zones = zone_label.split("__")
    if len(zones) > 1:
        return f"projects/{_UNSPECIFIED}/regions/{_gce_region(zones)}/disks/{disk}"
    return f"projects/{_UNSPECIFIED}/zones/{zones[0] or _UNSPECIFIED}/disks/{disk}"


def _gce_region(zones: Iterable[str]) -> str:
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise VolumeError(
                "failed to get region from zones: zone in unexpected format, "
                f"expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        shown = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise VolumeError(
            f"failed to get region from zones: multiple or no regions gotten from zones, got: map[{shown}]"
        )
    return regions.pop()


def _ebs_handle(volume_id: str) -> str:
    """The id may be an address, `aws://ZONE/ID`."""
    if not volume_id.startswith("aws://"):
        return volume_id
    found = unquote(urlsplit(volume_id).path).strip("/")
    if _EBS_ID.fullmatch(found) is None:
        raise VolumeError(
            f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({volume_id})"
        )
    return found


def migrated_affinity(volume: PersistentVolume, built_in: BuiltIn) -> NodeSelector | None:
    """From which nodes the CSI driver can reach a volume of the built-in driver: zones are named by the
    driver's own label, taken from the volume's node affinity, or else from its labels."""
    affinity = volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None
    if not built_in.topology_key:
        return affinity
    terms = affinity.node_selector_terms if affinity is not None else ()
    zone_key, region_key = _topology_keys(volume, terms)
    if any(r.key == zone_key and r.values for r in _requirements(terms)):
        terms = _renamed(terms, zone_key, built_in.topology_key)
    elif zone_key in volume.labels:
        zones = {zone.strip() for zone in volume.labels[zone_key].split("__")} - {""}
        if zones:
            wanted = NodeSelectorRequirement(
                key=built_in.topology_key, operator="In", values=tuple(sorted(zones))
            )
            terms = tuple(
                msgspec.structs.replace(term, match_expressions=(*term.match_expressions, wanted))
                for term in terms or (NodeSelectorTerm(),)
            )
            affinity = affinity or NodeSelector()
    if region_key == BETA_REGION and any(r.key == BETA_REGION and r.values for r in _requirements(terms)):
        terms = _renamed(terms, BETA_REGION, REGION)
    return None if affinity is None else NodeSelector(node_selector_terms=terms)


def _topology_keys(volume: PersistentVolume, terms: tuple[NodeSelectorTerm, ...]) -> tuple[str, str]:
    """The names of zone and region labels that a volume uses: today's where it uses both or neither."""
    in_terms = {requirement.key for requirement in _requirements(terms)}
    for keys in (in_terms, volume.labels.keys()):
        if ZONE in keys:
            return ZONE, REGION
        if BETA_ZONE in keys:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _requirements(terms: tuple[NodeSelectorTerm, ...]) -> Iterable[NodeSelectorRequirement]:
    return (requirement for term in terms for requirement in term.match_expressions)


def _renamed(terms: tuple[NodeSelectorTerm, ...], old: str, new: str) -> tuple[NodeSelectorTerm, ...]:
    return tuple(
        msgspec.structs.replace(
            term,
            match_expressions=tuple(
                msgspec.structs.replace(requirement, key=new) if requirement.key == old else requirement
                for requirement in term.match_expressions
            ),
        )
        for term in terms
    )
