"""VolumeRestrictions: disks and claims that tolerate one user only."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.cluster import Cluster
from stowplan.framework import SKIP, CycleState, unresolvable, unschedulable
from stowplan.plugins.volumes.restrictions import VolumeRestrictions
from stowplan.testing.builders import make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.judging import statuses
from tests.unit.plugins.volumes.world import a_claim, judged, pre_filtered, world

NODES: dict[str, dict[str, str]] = {"n0": {}, "n1": {}, "n2": {}}
DISK = "node(s) had no available disk"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use "
    "by another pod"
)


def rbd(*monitors: str, pool: str = "rbd", image: str = "i", ro: bool = False) -> dict[str, Any]:
    return {"rbd": {"monitors": list(monitors), "pool": pool, "image": image, "readOnly": ro}}


def gce(name: str, *, ro: bool = False) -> dict[str, Any]:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": ro}}


def ebs(name: str, *, ro: bool = False) -> dict[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": ro}}


def iscsi(iqn: str, *, ro: bool = False, portal: str = "p") -> dict[str, Any]:
    return {"iscsi": {"targetPortal": portal, "iqn": iqn, "lun": 0, "readOnly": ro}}


@pytest.mark.parametrize(
    ("mine", "theirs", "conflict"),
    [
        (gce("a"), gce("a"), True),
        (gce("a", ro=True), gce("a"), True),
        (gce("a", ro=True), gce("a", ro=True), False),
        (gce("a"), gce("b"), False),
        (ebs("a", ro=True), ebs("a", ro=True), True),
        (ebs("a"), ebs("b"), False),
        (iscsi("q"), iscsi("q", portal="other"), True),
        (iscsi("q", ro=True), iscsi("q", ro=True), False),
        (rbd("m1", "m2"), rbd("m2"), True),
        (rbd("m1"), rbd("m2"), False),
        (rbd("m1"), rbd("m1", pool="other"), False),
        (rbd("m1"), rbd("m1", image="other"), False),
        (rbd("m1", ro=True), rbd("m1", ro=True), False),
        (gce("a"), ebs("a"), False),
    ],
)
def test_a_disk_that_cannot_be_shared_keeps_pods_from_its_node_only(
    mine: dict[str, Any], theirs: dict[str, Any], conflict: bool
) -> None:
    cluster = world(make_pod("there").volume("d", **theirs).on_node("n1").build(), nodes=NODES)
    plugin = build_plugin(VolumeRestrictions, cluster)
    found = judged(plugin, make_pod("p").volume("d", **mine).build(), cluster)
    assert found == ({"n1": (DISK,)} if conflict else {})


def test_a_disk_is_free_again_when_its_pod_is_gone() -> None:
    there = make_pod("there").volume("d", **ebs("a")).on_node("n1").build()
    cluster = world(there, nodes=NODES)
    plugin = build_plugin(VolumeRestrictions, cluster)
    pod = make_pod("p").volume("d", **ebs("a")).build()
    with cluster.trial():
        cluster.remove(there)
        assert judged(plugin, pod, cluster) == {}
    assert judged(plugin, pod, cluster) == {"n1": (DISK,)}


def exclusive_claim_in_use() -> Cluster:
    return world(
        a_claim("c", modes=["ReadWriteOncePod"]),
        make_pod("there").pvc("c").on_node("n1").build(),
        nodes=NODES,
    )


def test_a_claim_for_one_pod_keeps_others_from_every_node_while_it_is_used() -> None:
    cluster = exclusive_claim_in_use()
    plugin = build_plugin(VolumeRestrictions, cluster)
    assert statuses(plugin, make_pod("p").pvc("c").build(), cluster) == [unschedulable(IN_USE)] * 3


def test_the_disk_is_the_first_reason() -> None:
    cluster = exclusive_claim_in_use()
    cluster.add(make_pod("disk").volume("d", **ebs("a")).on_node("n2").build())
    plugin = build_plugin(VolumeRestrictions, cluster)
    pod = make_pod("p").pvc("c").volume("d", **ebs("a")).build()
    assert judged(plugin, pod, cluster) == {"n0": (IN_USE,), "n1": (IN_USE,), "n2": (DISK,)}


def test_removing_the_user_in_a_trial_frees_the_claim_and_a_clone_of_the_state_stays_apart() -> None:
    cluster = exclusive_claim_in_use()
    plugin = build_plugin(VolumeRestrictions, cluster)
    pod = make_pod("p").pvc("c").build()
    state = CycleState()
    assert plugin.pre_filter(state, pod, cluster.nodes) is None
    trial = state.clone()
    there, node = cluster.pods["default/there"], cluster.nodes[1]
    plugin.remove_pod(trial, pod, there, node)
    assert plugin.filter(trial, pod, cluster.nodes).passed.all()
    assert not plugin.filter(state, pod, cluster.nodes).passed.any()
    plugin.add_pod(trial, pod, there, node)
    assert not plugin.filter(trial, pod, cluster.nodes).passed.any()


def test_users_without_a_node_and_in_other_namespaces_do_not_count() -> None:
    cluster = world(
        a_claim("c", modes=["ReadWriteOncePod"]),
        make_pod("other", "elsewhere").pvc("c").on_node("n1").build(),
        make_pod("lost").pvc("c").on_node("gone").build(),
        nodes=NODES,
    )
    plugin = build_plugin(VolumeRestrictions, cluster)
    assert pre_filtered(plugin, make_pod("p").pvc("c").build(), cluster) == SKIP


@pytest.mark.parametrize(
    "pod",
    [
        make_pod("p"),
        make_pod("p").pvc("shared"),
        make_pod("p").volume("e", ephemeral={"volumeClaimTemplate": {"spec": {}}}),
        make_pod("p").volume("c", cinder={"volumeID": "x"}),
    ],
)
def test_pods_without_anything_to_share_are_skipped(pod: Any) -> None:
    cluster = world(a_claim("shared"), make_pod("there").pvc("shared").on_node("n1").build(), nodes=NODES)
    plugin = build_plugin(VolumeRestrictions, cluster)
    assert pre_filtered(plugin, pod.build(), cluster) == SKIP


def test_a_missing_claim_is_named() -> None:
    cluster = world(nodes=NODES)
    plugin = build_plugin(VolumeRestrictions, cluster)
    status = pre_filtered(plugin, make_pod("p").pvc("c").build(), cluster)
    assert status == unresolvable('persistentvolumeclaim "c" not found')


def test_only_pods_with_claims_or_disks_are_its_concern() -> None:
    plugin = build_plugin(VolumeRestrictions, world(nodes=NODES))
    assert not plugin.concerns(make_pod("p").build())
    assert not plugin.concerns(make_pod("p").volume("c", cinder={"volumeID": "x"}).build())
    assert plugin.concerns(make_pod("p").pvc("c").build())
    assert plugin.concerns(make_pod("p").volume("d", **ebs("a")).build())
