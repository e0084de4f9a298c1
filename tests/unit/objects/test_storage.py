"""Names that do not follow from the Python ones, and distinctions that must survive decoding."""

from stowplan.objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from stowplan.testing.builders import make_object, make_pod


def test_volume_sources_of_pods() -> None:
    sources = {
        "gcePersistentDisk": {"pdName": "p", "readOnly": True},
        "awsElasticBlockStore": {"volumeID": "v"},
        "iscsi": {"targetPortal": "t", "iqn": "i", "lun": 0},
        "rbd": {"monitors": ["m"], "image": "i", "pool": "p"},
        "azureDisk": {"diskName": "d", "diskURI": "u"},
        "azureFile": {"secretName": "s", "shareName": "f"},
        "cinder": {"volumeID": "c"},
        "vsphereVolume": {"volumePath": "/v"},
        "portworxVolume": {"volumeID": "x"},
        "csi": {"driver": "d"},
        "image": {"reference": "web:1"},
        "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}},
        "persistentVolumeClaim": {"claimName": "c"},
    }
    pod = make_pod("a")
    for name, source in sources.items():
        pod.volume(name, **{name: source})
    volumes = {volume.name: volume for volume in pod.build().spec.volumes}
    assert set(volumes) == set(sources)
    gce, aws, disk = (volumes[n] for n in ("gcePersistentDisk", "awsElasticBlockStore", "azureDisk"))
    assert gce.gce_persistent_disk is not None
    assert (gce.gce_persistent_disk.pd_name, gce.gce_persistent_disk.read_only) == ("p", True)
    assert aws.aws_elastic_block_store is not None
    assert aws.aws_elastic_block_store.volume_id == "v"
    assert disk.azure_disk is not None
    assert disk.azure_disk.disk_uri == "u"
    template = volumes["ephemeral"].ephemeral
    assert template is not None
    assert template.volume_claim_template is not None
    assert template.volume_claim_template.spec.storage_class_name == "fast"


def test_claim_with_no_class_differs_from_one_with_the_empty_class() -> None:
    assert make_object(PersistentVolumeClaim, "c").spec.storage_class_name is None
    assert (
        make_object(PersistentVolumeClaim, "c", spec={"storageClassName": ""}).spec.storage_class_name == ""
    )


def test_persistent_volume() -> None:
    spec = {
        "capacity": {"storage": "5Gi"},
        "claimRef": {"namespace": "shop", "name": "data", "uid": "u"},
        "csi": {"driver": "d", "volumeHandle": "h"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone"}]}]}},
    }
    volume = make_object(PersistentVolume, "pv", spec=spec, status={"phase": "Bound"})
    assert volume.spec.claim_ref is not None
    assert volume.spec.claim_ref.name == "data"
    assert volume.spec.csi is not None
    assert volume.spec.csi.volume_handle == "h"
    assert volume.spec.node_affinity is not None
    assert volume.spec.node_affinity.required is not None
    assert volume.spec.node_affinity.required.node_selector_terms[0].match_expressions[0].key == "zone"
    assert volume.status.phase == "Bound"


def test_drivers_and_what_they_offer() -> None:
    node = make_object(
        CSINode,
        "n",
        spec={"drivers": [{"name": "d", "nodeID": "i", "allocatable": {"count": 0}}, {"name": "e"}]},
    )
    with_limit, without_limit = node.spec.drivers
    assert with_limit.node_id == "i"
    assert with_limit.allocatable is not None
    assert with_limit.allocatable.count == 0
    assert without_limit.allocatable is None
    driver = make_object(
        CSIDriver, "d", spec={"storageCapacity": True, "preventPodSchedulingIfMissing": True}
    )
    assert (driver.spec.storage_capacity, driver.spec.prevent_pod_scheduling_if_missing) == (True, True)
    left = make_object(
        CSIStorageCapacity,
        "c",
        capacity="5Gi",
        storageClassName="fast",
        nodeTopology={"matchLabels": {"zone": "a"}},
    )
    assert (left.capacity, left.maximum_volume_size, left.storage_class_name) == ("5Gi", None, "fast")
    assert left.node_topology is not None


def test_attachment_and_class() -> None:
    attachment = make_object(
        VolumeAttachment,
        "a",
        spec={"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "pv"}},
    )
    assert attachment.spec.source.persistent_volume_name == "pv"
    topologies = [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]
    fast = make_object(
        StorageClass, "fast", volumeBindingMode="WaitForFirstConsumer", allowedTopologies=topologies
    )
    assert fast.volume_binding_mode == "WaitForFirstConsumer"
    assert fast.allowed_topologies[0].match_label_expressions[0].values == ("a",)
