"""Volumes of built-in drivers as the CSI drivers see them."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.objects import NodeSelector
from stowplan.plugins.volumes.claims import VolumeError
from stowplan.plugins.volumes.migration import (
    BUILT_IN_BY_NAME,
    built_in_of,
    handle_of,
    migrated_affinity,
    migrated_on,
    volume_handle,
)
from stowplan.plugins.volumes.zone import BETA_REGION, BETA_ZONE, REGION, ZONE
from stowplan.testing.builders import make_pod
from tests.unit.plugins.volumes.world import a_csi_node, a_volume

SOURCES: dict[str, dict[str, Any]] = {
    "gce": {"gcePersistentDisk": {"pdName": "d"}},
    "ebs": {"awsElasticBlockStore": {"volumeID": "vol-1"}},
    "cinder": {"cinder": {"volumeID": "o"}},
    "azure": {"azureDisk": {"diskName": "a", "diskURI": "u"}},
    "portworx": {"portworxVolume": {"volumeID": "p"}},
}
GCE = "topology.gke.io/zone"
NO_ZONE_DISK = "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"
EBS = "topology.ebs.csi.aws.com/zone"


@pytest.mark.parametrize(
    ("source", "name", "driver", "handle"),
    [
        ("gce", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", NO_ZONE_DISK),
        ("ebs", "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "vol-1"),
        ("cinder", "kubernetes.io/cinder", "cinder.csi.openstack.org", "o"),
        ("azure", "kubernetes.io/azure-disk", "disk.csi.azure.com", "u"),
        ("portworx", "kubernetes.io/portworx-volume", "pxd.portworx.com", "p"),
    ],
)
def test_names_of_drivers_and_volumes(source: str, name: str, driver: str, handle: str) -> None:
    volume = a_volume("v", **SOURCES[source])
    built_in = built_in_of(volume.spec)
    assert built_in is not None and (built_in.name, built_in.driver, built_in.migrated) == (
        name,
        driver,
        True,
    )
    assert volume_handle(volume) == handle
    in_pod = make_pod("p").volume("x", **SOURCES[source]).build().spec.volumes[0]
    assert built_in_of(in_pod) == built_in and handle_of(in_pod) == handle


def test_volumes_of_other_kinds_have_no_built_in_driver() -> None:
    assert built_in_of(a_volume("v", csi={"driver": "d", "volumeHandle": "h"}).spec) is None
    assert built_in_of(a_volume("v", local={"path": "/x"}).spec) is None


@pytest.mark.parametrize(
    ("labels", "place"),
    [
        ({ZONE: "us-a-1"}, "zones/us-a-1"),
        ({BETA_ZONE: "us-a-1", ZONE: "us-b-1"}, "zones/us-a-1"),
        ({BETA_ZONE: "", ZONE: "us-b-1"}, "zones/us-b-1"),
        ({ZONE: "us-a-1__us-a-2"}, "regions/us-a"),
    ],
)
def test_a_gce_disk_is_named_with_its_zone_or_region(labels: dict[str, str], place: str) -> None:
    volume = a_volume("v", labels=labels, **SOURCES["gce"])
    assert volume_handle(volume) == f"projects/UNSPECIFIED/{place}/disks/d"


@pytest.mark.parametrize(
    ("source", "labels", "problem"),
    [
        ({"awsElasticBlockStore": {"volumeID": "aws://z/x"}}, {}, "Invalid format for AWS volume"),
        ({"azureDisk": {"diskName": "a", "kind": "Shared"}}, {}, r"kind\(Shared\) is not supported"),
        (SOURCES["gce"], {ZONE: "us-a-1__us-b-1"}, "multiple or no regions"),
        (SOURCES["gce"], {ZONE: "a__b"}, "zone in unexpected format"),
    ],
)
def test_volumes_that_have_no_name_in_csi(
    source: dict[str, Any], labels: dict[str, str], problem: str
) -> None:
    with pytest.raises(VolumeError, match=problem):
        volume_handle(a_volume("v", labels=labels, **source))


@pytest.mark.parametrize(
    ("volume_id", "handle"), [("aws://us-east-1a/vol-1", "vol-1"), ("aws:///vol-2", "vol-2")]
)
def test_an_ebs_disk_may_be_named_by_its_address(volume_id: str, handle: str) -> None:
    assert volume_handle(a_volume("v", awsElasticBlockStore={"volumeID": volume_id})) == handle


def test_a_managed_azure_disk_is_migrated_however_it_is_written() -> None:
    assert volume_handle(a_volume("v", azureDisk={"diskName": "a", "diskURI": "u", "kind": "managed"})) == "u"


def conditions(selector: NodeSelector | None) -> list[dict[str, tuple[str, ...]]] | None:
    if selector is None:
        return None
    return [
        {each.key: each.values for each in term.match_expressions} for term in selector.node_selector_terms
    ]


@pytest.mark.parametrize(
    ("source", "volume", "expected"),
    [
        ("ebs", {"on": {ZONE: ["a"], "rack": ["1"]}}, [{EBS: ("a",), "rack": ("1",)}]),
        ("gce", {"on": {BETA_ZONE: ["a"], BETA_REGION: ["r"]}}, [{GCE: ("a",), REGION: ("r",)}]),
        ("ebs", {"on": {BETA_REGION: ["r"]}, "labels": {BETA_ZONE: "a"}}, [{REGION: ("r",), EBS: ("a",)}]),
        ("ebs", {"on": {BETA_REGION: ["r"]}}, [{BETA_REGION: ("r",)}]),
        ("ebs", {"labels": {ZONE: "b__a__ a"}}, [{EBS: ("a", "b")}]),
        ("ebs", {"on": {"rack": ["1"]}, "labels": {ZONE: "a"}}, [{"rack": ("1",), EBS: ("a",)}]),
        ("ebs", {"on": {ZONE: ["a"]}, "labels": {ZONE: "b"}}, [{EBS: ("a",)}]),
        ("ebs", {"labels": {ZONE: "__"}}, None),
        ("ebs", {}, None),
        ("azure", {"on": {ZONE: ["a"]}}, [{ZONE: ("a",)}]),
        ("portworx", {"labels": {ZONE: "a"}}, None),
    ],
)
def test_zones_are_named_by_the_drivers_label(source: str, volume: dict[str, Any], expected: Any) -> None:
    made = a_volume("v", **volume, **SOURCES[source])
    built_in = built_in_of(made.spec)
    assert built_in is not None
    assert conditions(migrated_affinity(made, built_in)) == expected


def test_a_node_says_which_drivers_have_moved() -> None:
    ebs, file = BUILT_IN_BY_NAME["kubernetes.io/aws-ebs"], BUILT_IN_BY_NAME["kubernetes.io/azure-file"]
    both = a_csi_node("n", migrated=["kubernetes.io/aws-ebs", "kubernetes.io/azure-file"])
    assert migrated_on(both, ebs)
    assert not migrated_on(both, file)
    assert not migrated_on(a_csi_node("n"), ebs)
    assert not migrated_on(None, ebs)
