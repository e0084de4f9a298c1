"""What brings back pods that were rejected for their volumes."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.cluster import Cluster
from stowplan.framework import Plugin
from stowplan.objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from stowplan.plugins.volumes.binding import VolumeBinding
from stowplan.plugins.volumes.limits import NodeVolumeLimits
from stowplan.plugins.volumes.restrictions import VolumeRestrictions
from stowplan.plugins.volumes.zone import VolumeZone
from stowplan.testing.builders import PodBuilder, make_node, make_object, make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.waking import wakes

POD = make_pod("p").pvc("data").build()
EPHEMERAL = make_pod("p").volume("scratch", ephemeral={}).build()


def plugin(kind: type[Plugin]) -> Plugin:
    return build_plugin(kind, Cluster())


def claim(name: str, namespace: str = "default") -> PersistentVolumeClaim:
    return make_object(PersistentVolumeClaim, name, namespace)


def placed(name: str = "other", namespace: str = "default") -> PodBuilder:
    return make_pod(name, namespace).on_node("n1")


@pytest.mark.parametrize("kind", [VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone])
def test_a_claim_of_the_pod_that_comes(kind: type[Plugin]) -> None:
    assert wakes(plugin(kind), POD, None, claim("data"))
    assert not wakes(plugin(kind), POD, None, claim("else"))
    assert not wakes(plugin(kind), POD, None, claim("data", "else"))


@pytest.mark.parametrize(
    ("kind", "helps"),
    [(VolumeRestrictions, False), (NodeVolumeLimits, True), (VolumeBinding, True), (VolumeZone, False)],
)
def test_the_claim_of_an_ephemeral_volume(kind: type[Plugin], helps: bool) -> None:
    assert wakes(plugin(kind), EPHEMERAL, None, claim("p-scratch")) is helps


@pytest.mark.parametrize(
    ("kind", "helps"),
    [(VolumeRestrictions, False), (NodeVolumeLimits, False), (VolumeBinding, True), (VolumeZone, True)],
)
def test_a_claim_of_the_pod_that_changes(kind: type[Plugin], helps: bool) -> None:
    assert wakes(plugin(kind), POD, claim("data"), claim("data")) is helps


@pytest.mark.parametrize(
    ("kind", "added", "relabelled"),
    [
        (VolumeRestrictions, True, False),
        (NodeVolumeLimits, False, False),
        (VolumeBinding, True, True),
        (VolumeZone, True, True),
    ],
)
def test_nodes(kind: type[Plugin], added: bool, relabelled: bool) -> None:
    before, after = make_node("n1").build(), make_node("n1").labels(a="b").build()
    assert wakes(plugin(kind), POD, None, before) is added
    assert wakes(plugin(kind), POD, before, after) is relabelled


def test_a_pod_that_gives_up_a_claim_or_disk() -> None:
    restrictions = plugin(VolumeRestrictions)
    assert wakes(restrictions, POD, placed().pvc("data").build(), None)
    assert not wakes(restrictions, POD, placed().pvc("else").build(), None)
    assert not wakes(restrictions, POD, placed(namespace="else").pvc("data").build(), None)
    disk = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    wants_disk = make_pod("p").volume("v", **disk).build()
    assert wakes(restrictions, wants_disk, placed().volume("v", **disk).build(), None)
    assert not wakes(restrictions, wants_disk, placed().pvc("data").build(), None)


def test_a_pod_whose_volumes_are_detached() -> None:
    limits = plugin(NodeVolumeLimits)
    assert wakes(limits, POD, placed().pvc("else").build(), None)
    assert wakes(limits, POD, placed().volume("v", ephemeral={}).build(), None)
    assert not wakes(limits, POD, make_pod("pending").pvc("else").build(), None)
    assert not wakes(limits, POD, placed().build(), None)


def csi_node(migrated: str | None = None, **limits: int | None) -> CSINode:
    drivers = [
        {"name": name, **({} if limit is None else {"allocatable": {"count": limit}})}
        for name, limit in limits.items()
    ]
    annotations = {} if migrated is None else {"storage.alpha.kubernetes.io/migrated-plugins": migrated}
    return make_object(CSINode, "n1", spec={"drivers": drivers}, annotations=annotations)


def test_a_node_that_can_attach_more() -> None:
    limits = plugin(NodeVolumeLimits)
    assert wakes(limits, POD, None, csi_node())
    assert wakes(limits, POD, csi_node(d=3), csi_node(d=4))
    assert wakes(limits, POD, csi_node(), csi_node(d=1))
    assert not wakes(limits, POD, csi_node(d=3), csi_node(d=3))
    assert not wakes(limits, POD, csi_node(d=3), csi_node(d=None))


def test_an_attachment_that_goes() -> None:
    limits = plugin(NodeVolumeLimits)
    attachment = make_object(VolumeAttachment, "a", spec={"attacher": "ebs.csi.aws.com", "nodeName": "n1"})
    assert wakes(limits, POD, attachment, None)
    ebs = make_pod("p").volume("v", awsElasticBlockStore={"volumeID": "v"}).build()
    gce = make_pod("p").volume("v", gcePersistentDisk={"pdName": "v"}).build()
    assert wakes(limits, ebs, attachment, None)
    assert not wakes(limits, gce, attachment, None)
    assert not wakes(limits, POD, None, attachment)


def storage_class(mode: str | None = "WaitForFirstConsumer", *zones: str) -> StorageClass:
    topologies = [{"matchLabelExpressions": [{"key": "zone", "values": list(zones)}]}] if zones else []
    fields: dict[str, Any] = {"provisioner": "x", "allowedTopologies": topologies}
    return make_object(StorageClass, "c", **fields, **({"volumeBindingMode": mode} if mode else {}))


def test_storage_classes() -> None:
    binding, zone = plugin(VolumeBinding), plugin(VolumeZone)
    assert wakes(binding, POD, None, storage_class(None))
    assert wakes(binding, POD, storage_class(), storage_class("WaitForFirstConsumer", "a"))
    assert not wakes(binding, POD, storage_class(), storage_class())
    assert wakes(zone, POD, None, storage_class())
    assert not wakes(zone, POD, None, storage_class("Immediate"))
    assert not wakes(zone, POD, None, storage_class(None))


def volume(**labels: str) -> PersistentVolume:
    return make_object(PersistentVolume, "v", labels=labels)


def test_volumes() -> None:
    binding, zone = plugin(VolumeBinding), plugin(VolumeZone)
    key = "topology.kubernetes.io/zone"
    assert wakes(binding, POD, volume(), volume())
    assert wakes(zone, POD, None, volume())
    assert wakes(zone, POD, volume(**{key: "a"}), volume(**{key: "b"}))
    assert not wakes(zone, POD, volume(**{key: "a"}), volume(**{key: "a", "x": "y"}))


def test_drivers_that_move_to_csi() -> None:
    binding = plugin(VolumeBinding)
    assert wakes(binding, POD, None, csi_node())
    assert wakes(binding, POD, csi_node(), csi_node("kubernetes.io/aws-ebs"))
    assert not wakes(binding, POD, csi_node(d=1), csi_node(d=2))
    assert not wakes(binding, POD, csi_node(), csi_node("")), "none are migrated either way"


def test_a_driver_whose_capacity_does_not_count_any_more() -> None:
    binding = plugin(VolumeBinding)
    counting, not_counting = (
        make_object(CSIDriver, "d", spec={"storageCapacity": counts}) for counts in (True, False)
    )
    inline = make_pod("p").volume("v", csi={"driver": "d"}).build()
    assert wakes(binding, inline, counting, not_counting)
    assert not wakes(binding, inline, not_counting, counting)
    assert not wakes(binding, make_pod("p").volume("v", csi={"driver": "e"}).build(), counting, not_counting)
    assert not wakes(binding, POD, counting, not_counting)


def capacity(**sizes: str) -> CSIStorageCapacity:
    return make_object(CSIStorageCapacity, "pool", storageClassName="c", **sizes)


def test_a_pool_that_can_give_more() -> None:
    binding = plugin(VolumeBinding)
    assert wakes(binding, POD, None, capacity())
    assert wakes(binding, POD, capacity(capacity="1Gi"), capacity(capacity="2Gi"))
    assert wakes(binding, POD, capacity(), capacity(maximumVolumeSize="1Gi"))
    assert not wakes(binding, POD, capacity(capacity="2Gi"), capacity(capacity="1Gi"))
    assert not wakes(
        binding,
        POD,
        capacity(capacity="1Gi", maximumVolumeSize="1Gi"),
        capacity(capacity="9Gi", maximumVolumeSize="1Gi"),
    )
    assert not wakes(binding, POD, capacity(capacity="2Gi"), None)
