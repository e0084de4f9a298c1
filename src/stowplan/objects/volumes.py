"""The volume sources that a scheduler reads, in pods and in persistent volumes.

Other sources (config maps, secrets, empty dirs, ...) do not limit where a pod can be; they are not recorded.
"""

from __future__ import annotations

import msgspec

from stowplan.objects.base import Int32, Record, ResourceList
from stowplan.objects.meta import LabelSelector


class GCEPersistentDisk(Record, frozen=True):
    """A Google persistent disk."""

    pd_name: str = ""
    partition: Int32 = 0
    read_only: bool = False


class AWSElasticBlockStore(Record, frozen=True):
    """An Amazon EBS disk."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    partition: Int32 = 0
    read_only: bool = False


class ISCSI(Record, frozen=True):
    """An iSCSI disk."""

    target_portal: str = ""
    iqn: str = ""
    lun: Int32 = 0
    read_only: bool = False


class RBD(Record, frozen=True):
    """A Ceph block device; the API fills an absent pool with `rbd`."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    read_only: bool = False


class AzureDisk(Record, frozen=True):
    """An Azure data disk."""

    disk_name: str = ""
    disk_uri: str = msgspec.field(default="", name="diskURI")
    kind: str | None = None
    read_only: bool | None = None


class AzureFile(Record, frozen=True):
    """An Azure file share."""

    secret_name: str = ""
    share_name: str = ""
    secret_namespace: str | None = None
    read_only: bool = False


class Cinder(Record, frozen=True):
    """An OpenStack disk."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class VsphereVolume(Record, frozen=True):
    """A vSphere disk."""

    volume_path: str = ""


class PortworxVolume(Record, frozen=True):
    """A Portworx volume."""

    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class CSIVolume(Record, frozen=True):
    """A volume of a CSI driver; the handle is known for persistent volumes only."""

    driver: str = ""
    volume_handle: str = ""
    read_only: bool | None = None


class ImageVolume(Record, frozen=True):
    """The content of an image as a volume."""

    reference: str = ""


class PersistentVolumeClaimVolume(Record, frozen=True):
    """A volume that is whatever a claim is bound to."""

    claim_name: str = ""
    read_only: bool = False


class VolumeResources(Record, frozen=True):
    """How much storage a claim asks for."""

    requests: ResourceList = {}
    limits: ResourceList = {}


class PersistentVolumeClaimSpec(Record, frozen=True):
    """What a claim asks for, and the volume it got."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResources = VolumeResources()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimTemplate(Record, frozen=True):
    """The claim to make for a pod's ephemeral volume."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolume(Record, frozen=True):
    """A volume with a claim of its own, named after pod and volume, that lives as long as the pod."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class Volume(Record, frozen=True):
    """A volume of a pod, of a kind that matters for where the pod can be."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    csi: CSIVolume | None = None
    image: ImageVolume | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    iscsi: ISCSI | None = None
    rbd: RBD | None = None
    azure_disk: AzureDisk | None = None
    azure_file: AzureFile | None = None
    cinder: Cinder | None = None
    vsphere_volume: VsphereVolume | None = None
    portworx_volume: PortworxVolume | None = None

    @property
    def matters(self) -> bool:
        """Whether any source is of a kind that a scheduler reads."""
        return self != Volume(name=self.name)
