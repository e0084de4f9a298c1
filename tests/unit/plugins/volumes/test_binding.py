"""VolumeBinding: which nodes can serve a pod's claims, and setting aside what was found."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.cluster import Cluster
from stowplan.framework import SKIP, CycleState, unresolvable
from stowplan.framework.contract import Preflight
from stowplan.objects import Pod
from stowplan.plugins.volumes.binding import VolumeBinding, VolumeBindingArgs
from stowplan.plugins.volumes.claims import VolumeError
from stowplan.testing.builders import make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.judging import statuses
from tests.unit.plugins.volumes.world import (
    ZONE,
    a_claim,
    a_class,
    a_csi_node,
    a_driver,
    a_pool,
    a_volume,
    judged,
    pre_filtered,
    world,
)

OUT_OF_REACH = "node(s) didn't match PersistentVolume's node affinity"
NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"
NO_ROOM = "node(s) did not have enough free storage"
VOLUME_GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

NODES = {"na": {ZONE: "a"}, "nb": {ZONE: "b"}, "nc": {ZONE: "c"}}
STATIC = a_class("static", "kubernetes.io/no-provisioner")
POD = make_pod("p").pvc("c").build()


def rejected(cluster: Cluster, pod: Pod = POD) -> dict[str, tuple[str, ...]]:
    return judged(build_plugin(VolumeBinding, cluster), pod, cluster)


# PreFilter


def owned(uid: str, *, controller: bool = True) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": controller}
    return {"ownerReferences": [owner]}


def test_pods_without_claims_are_skipped_and_have_nothing_to_reserve_or_bind() -> None:
    cluster = world(nodes=NODES)
    plugin = build_plugin(VolumeBinding, cluster)
    for pod in (make_pod("p").build(), make_pod("p").volume("d", cinder={"volumeID": "x"}).build()):
        assert not plugin.concerns(pod)
        state = CycleState()
        assert plugin.pre_filter(state, pod, cluster.nodes) == SKIP
        assert plugin.reserve(state, pod, "na") is None
        assert plugin.pre_bind_preflight(state, pod, "na") == Preflight(SKIP, parallel=True)
        plugin.unreserve(state, pod, "na")


@pytest.mark.parametrize(
    ("claim", "problem"),
    [
        (None, 'persistentvolumeclaim "c" not found'),
        (
            a_claim("c", volume="v", phase="Lost"),
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        ),
        (
            a_claim("c", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}),
            'persistentvolumeclaim "c" is being deleted',
        ),
        (a_claim("c", storage_class="now"), "pod has unbound immediate PersistentVolumeClaims"),
        (a_claim("c", storage_class="gone"), "pod has unbound immediate PersistentVolumeClaims"),
        (a_claim("c", storage_class=None), "pod has unbound immediate PersistentVolumeClaims"),
        (a_claim("c", volumeName="v"), "pod has unbound immediate PersistentVolumeClaims"),
    ],
)
def test_claims_that_cannot_be_served_anywhere_are_told_first(claim: Any, problem: str) -> None:
    classes = [a_class("wait"), a_class("now", mode="Immediate")]
    cluster = world(*classes, *([claim] if claim else []), nodes=NODES)
    assert pre_filtered(build_plugin(VolumeBinding, cluster), POD, cluster) == unresolvable(problem)


@pytest.mark.parametrize(
    ("claim", "problem"),
    [
        (None, 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-e"'),
        (a_claim("p-e"), "PVC default/p-e was not created for pod default/p (pod is not owner)"),
        (
            a_claim("p-e", metadata=owned("other")),
            "PVC default/p-e was not created for pod default/p (pod is not owner)",
        ),
        (
            a_claim("p-e", metadata=owned("default/p", controller=False)),
            "PVC default/p-e was not created for pod default/p (pod is not owner)",
        ),
        (a_claim("p-e", metadata=owned("default/p")), None),
    ],
)
def test_the_claim_of_an_ephemeral_volume_must_be_the_pods_own(claim: Any, problem: str | None) -> None:
    cluster = world(a_class("wait"), *([claim] if claim else []), nodes=NODES)
    pod = make_pod("p").volume("e", ephemeral={"volumeClaimTemplate": {"spec": {}}}).build()
    status = pre_filtered(build_plugin(VolumeBinding, cluster), pod, cluster)
    assert status == (None if problem is None else unresolvable(problem))


def test_a_class_that_does_not_say_when_to_bind_is_an_error() -> None:
    cluster = world(a_class("wait", mode=None), a_claim("c"), nodes=NODES)
    with pytest.raises(VolumeError, match='VolumeBindingMode not set for StorageClass "wait"'):
        pre_filtered(build_plugin(VolumeBinding, cluster), POD, cluster)


# Bound claims


def test_a_bound_volume_must_be_in_reach() -> None:
    cluster = world(a_claim("c", volume="v"), a_volume("v", on={ZONE: ["a", "b"]}), nodes=NODES)
    assert rejected(cluster) == {"nc": (OUT_OF_REACH,)}
    assert statuses(build_plugin(VolumeBinding, cluster), POD, cluster)[2] == unresolvable(OUT_OF_REACH)


def test_the_first_claim_that_cannot_be_served_decides() -> None:
    objects = [a_claim("c", volume="v"), a_claim("d", volume="gone"), a_volume("v", on={ZONE: ["a"]})]
    cluster = world(*objects, nodes=NODES)
    both = make_pod("p").pvc("c", "d").build()
    assert rejected(cluster, both) == {"na": (VOLUME_GONE,), "nb": (OUT_OF_REACH,), "nc": (OUT_OF_REACH,)}
    assert rejected(cluster, make_pod("p").pvc("d", "c").build()) == dict.fromkeys(NODES, (VOLUME_GONE,))


def test_fields_in_a_volumes_affinity_do_not_count() -> None:
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["na"]}]}
    affinity = {"required": {"nodeSelectorTerms": [named]}}
    cluster = world(a_claim("c", volume="v"), a_volume("v", nodeAffinity=affinity), nodes=NODES)
    assert rejected(cluster) == {}


def test_on_nodes_that_have_moved_to_csi_the_names_of_its_zones_count() -> None:
    ebs: dict[str, Any] = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    cluster = world(
        a_claim("c", volume="v"),
        a_volume("v", on={ZONE: ["a"]}, **ebs),
        a_csi_node("nb", migrated=["kubernetes.io/aws-ebs"]),
        a_csi_node("nc", migrated=["kubernetes.io/gce-pd"]),
        nodes={"na": {ZONE: "a"}, "nb": {ZONE: "b", "topology.ebs.csi.aws.com/zone": "a"}, "nc": {ZONE: "c"}},
    )
    assert rejected(cluster) == {"nc": (OUT_OF_REACH,)}


def test_a_volume_that_csi_has_no_name_for_is_an_error_where_it_would_be_used() -> None:
    azure: dict[str, Any] = {"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Dedicated"}}
    objects = [a_claim("c", volume="v"), a_volume("v", **azure)]
    assert rejected(world(*objects, nodes=NODES)) == {}
    cluster = world(*objects, a_csi_node("nb", migrated=["kubernetes.io/azure-disk"]), nodes=NODES)
    problem = r"could not translate pv: kind\(Dedicated\) is not supported in csi migration"
    with pytest.raises(VolumeError, match=problem):
        rejected(cluster)


# Unbound claims


def test_an_unbound_claim_needs_a_free_volume_in_reach() -> None:
    claim = a_claim("c", storage_class="static")
    cluster = world(STATIC, claim, a_volume("v", storage_class="static", on={ZONE: ["b"]}), nodes=NODES)
    assert rejected(cluster) == {"na": (NOTHING_TO_BIND,), "nc": (NOTHING_TO_BIND,)}


def test_or_else_a_class_that_can_make_one_there() -> None:
    term = {"matchLabelExpressions": [{"key": ZONE, "values": ["a", "b"]}]}
    cluster = world(a_class("wait", allowedTopologies=[term]), a_claim("c"), nodes=NODES)
    assert rejected(cluster) == {"nc": (NOTHING_TO_BIND,)}
    cluster.add(a_volume("v", on={ZONE: ["c"]}))
    assert rejected(cluster) == {}


@pytest.mark.parametrize("terms", [[{}], [{"matchLabelExpressions": [{"key": ZONE, "values": []}]}]])
def test_topologies_that_say_nothing_allow_nothing(terms: list[Any]) -> None:
    cluster = world(a_class("wait", allowedTopologies=terms), a_claim("c"), nodes=NODES)
    assert rejected(cluster) == dict.fromkeys(NODES, (NOTHING_TO_BIND,))


def test_a_class_without_a_provisioner_makes_nothing() -> None:
    cluster = world(a_class("wait", ""), a_claim("c"), nodes=NODES)
    assert rejected(cluster) == dict.fromkeys(NODES, (NOTHING_TO_BIND,))


def test_a_claim_for_which_a_node_was_selected_waits_for_that_node() -> None:
    selected = a_claim("c", annotations={"volume.kubernetes.io/selected-node": "nb"})
    cluster = world(a_class("wait"), selected, a_volume("free"), nodes=NODES)
    assert rejected(cluster) == {"na": (NOTHING_TO_BIND,), "nc": (NOTHING_TO_BIND,)}
    cluster.add(a_claim("c", annotations={"volume.kubernetes.io/selected-node": "gone"}))
    assert rejected(cluster) == dict.fromkeys(NODES, (NOTHING_TO_BIND,))


def in_zone(zone: str) -> dict[str, Any]:
    return {"matchLabels": {ZONE: zone}}


def test_where_the_driver_reports_capacity_there_must_be_room() -> None:
    cluster = world(
        a_class("wait"),
        a_claim("c", size="5Gi"),
        a_driver("csi.x", storageCapacity=True),
        a_pool("a", "wait", in_zone("a"), capacity="5Gi"),
        a_pool("b", "wait", in_zone("b"), capacity="9Gi", maximumVolumeSize="4Gi"),
        a_pool("other", "other", {}, capacity="9Gi"),
        a_pool("nowhere", "wait", None, capacity="9Gi"),
        a_pool("unknown", "wait", {}),
        nodes=NODES,
    )
    assert rejected(cluster) == {"nb": (NO_ROOM,), "nc": (NO_ROOM,)}
    plugin = build_plugin(VolumeBinding, cluster)
    assert judged(plugin, POD, cluster) == {"nb": (NO_ROOM,), "nc": (NO_ROOM,)}
    several = {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["b"]}]}
    cluster.add(a_pool("c", "wait", several, maximumVolumeSize="5Gi"))
    assert judged(plugin, POD, cluster) == {"nb": (NO_ROOM,)}
    cluster.remove(a_pool("a", "wait", None))
    cluster.remove(a_pool("c", "wait", None))
    assert judged(plugin, POD, cluster) == dict.fromkeys(NODES, (NO_ROOM,))


@pytest.mark.parametrize(
    ("driver", "size"),
    [
        (None, "5Gi"),
        (a_driver("csi.x"), "5Gi"),
        (a_driver("csi.x", storageCapacity=False), "5Gi"),
        (a_driver("csi.x", storageCapacity=True), None),
    ],
)
def test_nobody_counts_room_without_a_driver_that_does_and_a_size(driver: Any, size: str | None) -> None:
    cluster = world(a_class("wait"), a_claim("c", size=size), *([driver] if driver else []), nodes=NODES)
    assert rejected(cluster) == {}


def test_reasons_of_bound_and_unbound_claims_stand_together_in_order() -> None:
    cluster = world(
        a_class("wait"),
        STATIC,
        a_driver("csi.x", storageCapacity=True),
        a_claim("bound", volume="v"),
        a_volume("v", on={ZONE: ["a"]}, phase="Bound"),
        a_claim("static", storage_class="static"),
        a_claim("made"),
        a_claim("lost", volume="gone"),
        nodes={"na": NODES["na"], "nb": NODES["nb"]},
    )
    assert rejected(cluster, make_pod("p").pvc("static", "bound").build()) == {
        "na": (NOTHING_TO_BIND,),
        "nb": (OUT_OF_REACH, NOTHING_TO_BIND),
    }
    assert rejected(cluster, make_pod("p").pvc("made", "bound").build()) == {
        "na": (NO_ROOM,),
        "nb": (OUT_OF_REACH, NO_ROOM),
    }
    assert rejected(cluster, make_pod("p").pvc("made", "lost").build()) == dict.fromkeys(
        ["na", "nb"], (NO_ROOM, VOLUME_GONE)
    )


def test_a_selector_of_a_claim_that_makes_no_sense_is_an_error() -> None:
    bad = {"matchExpressions": [{"key": "tier", "operator": "Near", "values": []}]}
    cluster = world(a_class("wait"), a_claim("c", selector=bad), nodes=NODES)
    problem = (
        "error creating internal label selector for claim: default/c: "
        '"Near" is not a valid label selector operator'
    )
    with pytest.raises(VolumeError, match=problem):
        rejected(cluster)


# Reserve


def decided(plugin: VolumeBinding, pod: Pod, node: str) -> CycleState:
    state, nodes = CycleState(), plugin.handle.cluster.nodes
    assert plugin.pre_filter(state, pod, nodes) is None
    assert plugin.reserve(state, pod, node) is None
    return state


def test_a_volume_that_was_set_aside_is_not_offered_to_others_until_it_is_given_back() -> None:
    cluster = world(
        STATIC,
        a_claim("c", storage_class="static"),
        a_claim("d", storage_class="static"),
        a_volume("small", storage_class="static", size="5Gi", on={ZONE: ["a"]}),
        nodes=NODES,
    )
    plugin = build_plugin(VolumeBinding, cluster)
    other = make_pod("q").pvc("d").build()
    state = decided(plugin, POD, "na")
    assert plugin.pre_bind_preflight(state, POD, "na") == Preflight(None, parallel=True)
    assert set(judged(plugin, other, cluster)) == set(NODES)
    assert set(judged(plugin, POD, cluster)) == {"nb", "nc"}
    plugin.unreserve(state, POD, "na")
    plugin.unreserve(state, POD, "na")
    assert set(judged(plugin, other, cluster)) == {"nb", "nc"}


def test_a_claim_that_was_promised_to_a_node_is_kept_there_until_it_is_given_back() -> None:
    cluster = world(a_class("wait"), a_claim("c"), nodes=NODES)
    plugin = build_plugin(VolumeBinding, cluster)
    state = decided(plugin, POD, "nb")
    assert set(judged(plugin, make_pod("q").pvc("c").build(), cluster)) == {"na", "nc"}
    plugin.unreserve(state, POD, "nb")
    assert judged(plugin, POD, cluster) == {}


def test_news_from_the_server_override_what_was_assumed() -> None:
    cluster = world(a_class("wait"), a_claim("c"), nodes=NODES)
    plugin = build_plugin(VolumeBinding, cluster)
    decided(plugin, POD, "nb")
    cluster.add(a_claim("c"))  # the same version again is no news
    assert set(judged(plugin, POD, cluster)) == {"na", "nc"}
    cluster.add(a_claim("c", metadata={"resourceVersion": "8"}))
    assert judged(plugin, POD, cluster) == {}


def test_with_all_claims_bound_there_is_nothing_to_do() -> None:
    cluster = world(a_claim("c", volume="v"), a_volume("v"), nodes=NODES)
    plugin = build_plugin(VolumeBinding, cluster)
    state = decided(plugin, POD, "na")
    assert plugin.pre_bind_preflight(state, POD, "na") == Preflight(SKIP, parallel=True)


# Args and score


def test_args_are_checked() -> None:
    assert VolumeBindingArgs().bind_timeout_seconds == 600
    assert VolumeBindingArgs().problems() == []
    assert VolumeBindingArgs(bind_timeout_seconds=0).problems() == []
    assert VolumeBindingArgs(bind_timeout_seconds=-1, shape=[]).problems() == [
        ("bindTimeoutSeconds", "invalid BindTimeoutSeconds, should not be a negative value"),
        (
            "shape",
            "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring",
        ),
    ]


def test_it_does_not_score() -> None:
    cluster = world(nodes=NODES)
    plugin = build_plugin(VolumeBinding, cluster)
    assert plugin.pre_score(CycleState(), POD, cluster.nodes) == SKIP
    assert plugin.score(CycleState(), POD, cluster.nodes) == 0
