"""Volumes, claims and what is known of the drivers that serve them."""

from __future__ import annotations

import msgspec

from stowplan.objects.base import Int32, Quantity, Record, ResourceList
from stowplan.objects.meta import KubeObject, LabelSelector, NodeSelector, TypedReference
from stowplan.objects.volumes import (
    ISCSI,
    RBD,
    AWSElasticBlockStore,
    AzureDisk,
    AzureFile,
    Cinder,
    CSIVolume,
    GCEPersistentDisk,
    PersistentVolumeClaimSpec,
    PortworxVolume,
    VsphereVolume,
)


class VolumeNodeAffinity(Record, frozen=True):
    """The nodes from which a volume can be reached."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Record, frozen=True):
    """A piece of storage, the claim it is for, and where it can be reached."""

    capacity: ResourceList = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: TypedReference | None = None
    persistent_volume_reclaim_policy: str = ""
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIVolume | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    iscsi: ISCSI | None = None
    rbd: RBD | None = None
    azure_disk: AzureDisk | None = None
    azure_file: AzureFile | None = None
    cinder: Cinder | None = None
    vsphere_volume: VsphereVolume | None = None
    portworx_volume: PortworxVolume | None = None


class PersistentVolumeStatus(Record, frozen=True):
    """Available, Bound, Released, ..."""

    phase: str = ""


class PersistentVolume(KubeObject, frozen=True):
    """A piece of storage in the cluster."""

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class PersistentVolumeClaimStatus(Record, frozen=True):
    """Pending, Bound or Lost."""

    phase: str = ""


class PersistentVolumeClaim(KubeObject, frozen=True):
    """A request for storage, and the volume that serves it."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class TopologySelectorRequirement(Record, frozen=True):
    """A label that must have one of these values."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Record, frozen=True):
    """Labels that must all fit."""

    match_label_expressions: tuple[TopologySelectorRequirement, ...] = ()


class StorageClass(KubeObject, frozen=True):
    """A kind of storage, and when and where volumes of it are made."""

    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()
    reclaim_policy: str | None = None


class CSINodeAllocatable(Record, frozen=True):
    """How many volumes of a driver fit on a node; None is no limit."""

    count: Int32 | None = None


class CSINodeDriver(Record, frozen=True):
    """A driver that is installed on a node."""

    name: str = ""
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: CSINodeAllocatable | None = None


class CSINodeSpec(Record, frozen=True):
    """The drivers on a node."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(KubeObject, frozen=True):
    """What is known of the storage drivers on the node of the same name."""

    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Record, frozen=True):
    """How a driver wants to be treated; absent flags have the API's defaults."""

    attach_required: bool | None = None
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(KubeObject, frozen=True):
    """A storage driver of the cluster."""

    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(KubeObject, frozen=True):
    """How much storage of a class is left in a part of the cluster."""

    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class VolumeAttachmentSource(Record, frozen=True):
    """The volume that is attached: a persistent one by name, or one of a pod by what it is."""

    persistent_volume_name: str | None = None
    inline_volume_spec: PersistentVolumeSpec | None = None


class VolumeAttachmentSpec(Record, frozen=True):
    """Which driver attaches which volume to which node."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachmentStatus(Record, frozen=True):
    """Whether it is done."""

    attached: bool = False


class VolumeAttachment(KubeObject, frozen=True):
    """A volume that is, or is being, attached to a node."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()
