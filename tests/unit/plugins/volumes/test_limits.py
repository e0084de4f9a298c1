"""NodeVolumeLimits: how many volumes of a driver a node can attach."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.cluster import Cluster
from stowplan.framework import SKIP, CycleState, unresolvable
from stowplan.objects import Pod
from stowplan.plugins.volumes.claims import VolumeError
from stowplan.plugins.volumes.limits import NodeVolumeLimits
from stowplan.testing.builders import make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.judging import statuses
from tests.unit.plugins.volumes.world import (
    a_claim,
    a_class,
    a_csi_node,
    a_volume,
    an_attachment,
    judged,
    pre_filtered,
    world,
)

TOO_MANY = ("node(s) exceed max volume count",)
NODES: dict[str, dict[str, str]] = {"n0": {}, "n1": {}}
MIGRATED = "ebs.csi.aws.com"


def csi(name: str, handle: str = "", driver: str = "csi.x", claim: str = "") -> list[Any]:
    """A claim and the volume it is bound to."""
    source = {"driver": driver, "volumeHandle": handle or name}
    return [a_claim(claim or name, volume=f"pv-{name}"), a_volume(f"pv-{name}", csi=source)]


def limited(count: int, *objects: Any, driver: str = "csi.x") -> Cluster:
    """Two nodes with this limit, a third without CSINode and a fourth without limit."""
    nodes = {**NODES, "unknown": {}, "unlimited": {}}
    csi_nodes = [a_csi_node("n0", {driver: count}), a_csi_node("n1", {driver: count})]
    return world(*csi_nodes, a_csi_node("unlimited", {driver: None}), *objects, nodes=nodes)


def rejected(cluster: Cluster, pod: Pod) -> set[str]:
    found = judged(build_plugin(NodeVolumeLimits, cluster), pod, cluster)
    assert all(reasons == TOO_MANY for reasons in found.values())
    return set(found)


def test_one_volume_more_than_the_limit_is_too_many() -> None:
    cluster = limited(2, *csi("a"), *csi("b"), *csi("c"))
    cluster.add(make_pod("there").pvc("a", "b").on_node("n0").build())
    assert rejected(cluster, make_pod("p").pvc("c").build()) == {"n0"}
    cluster.add(a_csi_node("n0", {"csi.x": 3}))
    assert rejected(cluster, make_pod("p").pvc("c").build()) == set()


def test_a_volume_that_is_there_already_does_not_count_again() -> None:
    cluster = limited(1, *csi("a"), *csi("b"))
    cluster.add(make_pod("there").pvc("a").on_node("n0").build())
    cluster.add(make_pod("too").pvc("a").on_node("n0").build())
    assert rejected(cluster, make_pod("p").pvc("a").build()) == set()
    assert rejected(cluster, make_pod("p").pvc("b").build()) == {"n0"}


def test_a_node_over_its_limit_still_takes_pods_that_bring_nothing_new() -> None:
    cluster = limited(0, *csi("a"))
    cluster.add(make_pod("there").pvc("a").on_node("n0").build())
    assert rejected(cluster, make_pod("p").pvc("a").build()) == {"n1"}


def test_drivers_are_counted_apart() -> None:
    cluster = limited(1, *csi("a"), *csi("b", driver="csi.y"))
    cluster.add(make_pod("there").pvc("a").on_node("n0").build())
    assert rejected(cluster, make_pod("p").pvc("b").build()) == set()


def test_attachments_count_unless_a_pod_explains_them() -> None:
    cluster = limited(
        1,
        *csi("a"),
        *csi("b"),
        an_attachment("of-pod", "n0", "pv-a"),
        an_attachment("left-over", "n1", "pv-a"),
        make_pod("there").pvc("a").on_node("n0").build(),
    )
    assert rejected(cluster, make_pod("p").pvc("b").build()) == {"n0", "n1"}
    cluster.add(a_csi_node("n0", {"csi.x": 2}))
    assert rejected(cluster, make_pod("p").pvc("b").build()) == {"n1"}


def test_attachments_that_name_no_csi_volume_do_not_count() -> None:
    cluster = limited(
        1,
        *csi("b"),
        a_volume("plain"),
        an_attachment("inline", "n0", None),
        an_attachment("gone", "n0", "pv-gone"),
        an_attachment("plain", "n0", "plain"),
        an_attachment("nobody", "n0", "pv-b", attacher=""),
    )
    assert rejected(cluster, make_pod("p").pvc("b").build()) == set()


def test_claims_that_wait_for_a_volume_count_for_the_driver_of_their_class() -> None:
    cluster = limited(1, a_class("wait"), a_claim("a"), a_claim("b"))
    cluster.add(make_pod("there").pvc("a").on_node("n0").build())
    assert rejected(cluster, make_pod("p").pvc("a").build()) == set()
    assert rejected(cluster, make_pod("p").pvc("b").build()) == {"n0"}
    assert rejected(cluster, make_pod("p").pvc("a", "b").build()) == {"n0", "n1"}


def test_a_claim_whose_volume_is_not_there_counts_as_if_it_were_still_to_be_made() -> None:
    cluster = limited(0, a_class("wait"), a_claim("a", volume="gone"))
    assert rejected(cluster, make_pod("p").pvc("a").build()) == {"n0", "n1"}


@pytest.mark.parametrize("claim", [a_claim("a", storage_class=None), a_claim("a", storage_class="gone")])
def test_claims_of_no_class_do_not_count(claim: Any) -> None:
    assert rejected(limited(0, claim), make_pod("p").pvc("a").build()) == set()


def test_claims_of_pods_that_are_gone_do_not_count_but_the_pod_to_place_needs_its_claim() -> None:
    cluster = limited(0, make_pod("there").pvc("gone").on_node("n0").build(), *csi("a"))
    assert rejected(cluster, make_pod("p").pvc("a").build()) == {"n0", "n1"}
    plugin = build_plugin(NodeVolumeLimits, cluster)
    missing = unresolvable('looking up PVC default/gone: persistentvolumeclaim "gone" not found')
    assert statuses(plugin, make_pod("p").pvc("gone").build(), cluster) == [missing] * 4


def test_an_ephemeral_claim_must_be_the_pods_own() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "default/p", "controller": True}
    mine = a_claim("p-e", metadata={"ownerReferences": [owner]})
    cluster = limited(0, a_class("wait"), mine)
    pod = make_pod("p").volume("e", ephemeral={}).build()
    assert rejected(cluster, pod) == {"n0", "n1"}
    cluster.add(a_claim("p-e"))
    plugin = build_plugin(NodeVolumeLimits, cluster)
    with pytest.raises(VolumeError, match=r"PVC default/p-e was not created for pod default/p \(pod is not"):
        plugin.filter(CycleState(), pod, cluster.nodes)


def test_a_stolen_ephemeral_claim_on_a_node_with_limits_is_an_error() -> None:
    thief = make_pod("thief").volume("e", ephemeral={}).on_node("n0").build()
    cluster = limited(5, a_class("wait"), a_claim("thief-e"), thief, *csi("a"))
    plugin = build_plugin(NodeVolumeLimits, cluster)
    pod = make_pod("p").pvc("a").build()
    with pytest.raises(VolumeError, match="not created for pod default/thief"):
        plugin.filter(CycleState(), pod, cluster.nodes)
    with pytest.raises(VolumeError, match="not created for pod default/thief"):
        plugin.filter_node(CycleState(), pod, cluster.nodes[0])
    assert plugin.filter_node(CycleState(), pod, cluster.nodes[1]) is None


# Built-in drivers


def test_built_in_volumes_count_for_the_driver_that_replaced_theirs() -> None:
    ebs: dict[str, Any] = {"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1"}}
    cluster = limited(
        1,
        a_claim("old", volume="old"),
        a_volume("old", **ebs),
        *csi("same", "vol-1", MIGRATED),
        *csi("new", "vol-2", MIGRATED),
        make_pod("there").pvc("old").on_node("n0").build(),
        make_pod("named").volume("d", **ebs).on_node("n1").build(),
        driver=MIGRATED,
    )
    assert rejected(cluster, make_pod("p").pvc("same").build()) == set()
    assert rejected(cluster, make_pod("p").pvc("new").build()) == {"n0", "n1"}
    assert rejected(cluster, make_pod("p").volume("d", **ebs).build()) == set()


def test_classes_of_built_in_drivers_count_when_migrated() -> None:
    cluster = limited(
        0,
        a_class("wait", "kubernetes.io/aws-ebs"),
        a_class("file", "kubernetes.io/azure-file"),
        a_claim("a"),
        a_claim("f", storage_class="file"),
        driver=MIGRATED,
    )
    assert rejected(cluster, make_pod("p").pvc("a").build()) == {"n0", "n1"}
    assert rejected(cluster, make_pod("p").pvc("f").build()) == set()


@pytest.mark.parametrize(
    "source",
    [
        {"azureFile": {"secretName": "s", "shareName": "f"}},
        {"vsphereVolume": {"volumePath": "v"}},
        {"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Dedicated"}},
    ],
)
def test_volumes_that_are_not_migrated_do_not_count(source: dict[str, Any]) -> None:
    limits = {"file.csi.azure.com": 0, "csi.vsphere.vmware.com": 0, "disk.csi.azure.com": 0}
    cluster = world(
        a_csi_node("n0", limits), a_claim("c", volume="v"), a_volume("v", **source), nodes={"n0": {}}
    )
    assert rejected(cluster, make_pod("p").pvc("c").build()) == set()


def test_a_disk_in_the_pod_that_cannot_be_translated_is_an_error_where_it_matters() -> None:
    cluster = limited(1, driver=MIGRATED)
    plugin = build_plugin(NodeVolumeLimits, cluster)
    pod = make_pod("p").volume("d", awsElasticBlockStore={"volumeID": "aws://x/disk"}).build()
    problem = (
        r"converting volume\(d\) from inline to csi: failed to translate Kubernetes ID to EBS Volume ID "
        r"Invalid format for AWS volume \(aws://x/disk\)"
    )
    with pytest.raises(VolumeError, match=problem):
        plugin.filter(CycleState(), pod, cluster.nodes)
    unknown = cluster.node("unknown")
    assert unknown is not None and plugin.filter_node(CycleState(), pod, unknown) is None


# Which pods


@pytest.mark.parametrize(
    ("pod", "asked"),
    [
        (make_pod("p"), False),
        (make_pod("p").volume("i", image={"reference": "r"}), False),
        (make_pod("p").volume("r", rbd={"monitors": ["m"], "image": "i"}), False),
        (make_pod("p").volume("f", azureFile={"secretName": "s", "shareName": "f"}), True),
        (make_pod("p").volume("e", ephemeral={}), True),
        (make_pod("p").pvc("c"), True),
    ],
)
def test_only_pods_whose_volumes_may_count_are_its_concern(pod: Any, asked: bool) -> None:
    cluster = limited(0)
    plugin = build_plugin(NodeVolumeLimits, cluster)
    built = pod.build()
    assert plugin.concerns(built) is asked
    assert pre_filtered(plugin, built, cluster) == (None if asked else SKIP)
