"""What brings back the pods that the small plugins rejected: nodes that changed to suit them, mostly."""

from __future__ import annotations

import msgspec

from stowplan.cluster import Cluster
from stowplan.framework import unresolvable
from stowplan.objects import Node, Pod
from stowplan.plugins.defaultpreemption import DefaultPreemption
from stowplan.plugins.node_affinity import NodeAffinity
from stowplan.plugins.node_declared_features import NodeDeclaredFeatures
from stowplan.plugins.node_name import NodeName
from stowplan.plugins.node_ports import NodePorts
from stowplan.plugins.node_unschedulable import NodeUnschedulable
from stowplan.plugins.scheduling_gates import SchedulingGates
from stowplan.plugins.taint_toleration import TaintToleration
from stowplan.testing.builders import NodeBuilder, PodBuilder, make_node, make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.waking import wakes

POD = make_pod("p").build()


def node() -> NodeBuilder:
    return make_node("n1")


def other(name: str = "other") -> PodBuilder:
    return make_pod(name).on_node("n1")


PLAIN = node().build()
CORDONED = node().unschedulable().build()


def test_uncordoning_a_node_or_adding_one_brings_pods_back() -> None:
    plugin = build_plugin(NodeUnschedulable, Cluster())
    assert wakes(plugin, POD, CORDONED, PLAIN)
    assert wakes(plugin, POD, None, PLAIN)
    assert not wakes(plugin, POD, None, CORDONED)
    assert not wakes(plugin, POD, PLAIN, CORDONED)
    tainted = node().taint("a").build()
    assert not wakes(plugin, POD, tainted, PLAIN), "it was not cordoned before"


def test_tolerating_cordons_brings_the_pod_itself_back() -> None:
    plugin = build_plugin(NodeUnschedulable, Cluster())
    cordon = "node.kubernetes.io/unschedulable"
    assert wakes(plugin, POD, POD, make_pod("p").tolerate(cordon).build())
    assert not wakes(plugin, POD, POD, make_pod("p").tolerate("else").build())
    assert not wakes(plugin, POD, other().build(), other().tolerate(cordon).build())


def test_a_node_that_loses_its_last_unbearable_taint_brings_pods_back() -> None:
    plugin = build_plugin(TaintToleration, Cluster())
    one, two = node().taint("a").build(), node().taint("a").taint("b").build()
    assert wakes(plugin, POD, one, PLAIN)
    assert not wakes(plugin, POD, two, one)
    assert wakes(plugin, make_pod("p").tolerate("a").build(), two, one)
    assert wakes(plugin, POD, None, PLAIN)
    assert not wakes(plugin, POD, None, one)
    assert not wakes(plugin, POD, node().taint("a", effect="PreferNoSchedule").build(), PLAIN)


def test_any_new_toleration_of_its_own_brings_a_pod_back() -> None:
    plugin = build_plugin(TaintToleration, Cluster())
    assert wakes(plugin, POD, POD, make_pod("p").tolerate("a").build())
    assert not wakes(plugin, POD, other().build(), other().tolerate("a").build())


def test_a_node_that_matches_now_and_did_not_before_brings_pods_back() -> None:
    plugin = build_plugin(NodeAffinity, Cluster())
    pod = make_pod("p").node_selector(disk="ssd").build()
    ssd, ssd_too = node().labels(disk="ssd").build(), node().labels(disk="ssd", a="b").build()
    assert wakes(plugin, pod, PLAIN, ssd)
    assert wakes(plugin, pod, None, ssd)
    assert not wakes(plugin, pod, None, PLAIN)
    assert not wakes(plugin, pod, ssd, PLAIN)
    assert not wakes(plugin, pod, ssd, ssd_too)


def test_a_node_must_match_the_added_affinity_too() -> None:
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}
    added = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    plugin = build_plugin(NodeAffinity, Cluster(), addedAffinity=added)
    pod = make_pod("p").node_selector(disk="ssd").build()
    assert not wakes(plugin, pod, None, node().labels(disk="ssd").build())
    assert wakes(plugin, pod, None, node().labels(disk="ssd", pool="a").build())


def test_only_a_new_node_can_be_the_one_that_was_named() -> None:
    plugin = build_plugin(NodeName, Cluster())
    assert wakes(plugin, POD, None, PLAIN)
    assert not wakes(plugin, POD, PLAIN, node().labels(a="b").build())


def test_a_port_that_gets_free_brings_back_who_wants_it() -> None:
    plugin = build_plugin(NodePorts, Cluster())
    pod = make_pod("p").host_port(80).build()
    assert wakes(plugin, pod, other().host_port(80).build(), None)
    assert wakes(plugin, pod, other().host_port(80, ip="10.0.0.1").build(), None)
    assert wakes(plugin, pod, make_pod("promised").nominated("n1").host_port(80).build(), None)
    assert not wakes(plugin, pod, make_pod("pending").host_port(80).build(), None)
    assert not wakes(plugin, pod, other().host_port(81).build(), None)
    assert not wakes(plugin, pod, other().host_port(80, protocol="UDP").build(), None)
    assert not wakes(plugin, pod, other().build(), None)
    assert wakes(plugin, pod, None, PLAIN)


def test_taking_the_last_gate_away_brings_the_pod_itself_back() -> None:
    plugin = build_plugin(SchedulingGates, Cluster())
    gated = make_pod("p").gate("a").build()
    assert wakes(plugin, gated, gated, POD)
    assert not wakes(plugin, gated, make_pod("q").gate("a").build(), make_pod("q").build())


def test_other_features_of_a_node_or_other_needs_bring_pods_back() -> None:
    plugin = build_plugin(NodeDeclaredFeatures, Cluster())
    able: Node = node().features("x").build()
    pod: Pod = make_pod("p").spec(hostNetwork=True, hostUsers=False).build()
    assert wakes(plugin, pod, PLAIN, able)
    assert wakes(plugin, pod, None, PLAIN)
    assert not wakes(plugin, pod, PLAIN, node().labels(a="b").build())
    assert wakes(plugin, pod, pod, POD)
    assert not wakes(
        plugin, pod, pod, make_pod("p").spec(hostNetwork=True, hostUsers=False).labels(a="b").build()
    )


def test_until_its_victims_are_gone_a_preemptor_is_kept_out() -> None:
    cluster = Cluster()
    plugin = build_plugin(DefaultPreemption, cluster)
    assert plugin.pre_enqueue(POD) is None
    victims = tuple(make_pod(f"victim{i}").on_node("n").build() for i in range(2))
    for victim in victims:
        cluster.add(victim)
    waits = unresolvable("waiting for the preemption for this pod to be finished")
    plugin.making_room(POD, victims)
    assert plugin.pre_enqueue(POD) == waits
    assert plugin.pre_enqueue(other().build()) is None
    cluster.remove(victims[0])
    assert plugin.pre_enqueue(POD) == waits, "one victim is still there"
    cluster.add(msgspec.structs.replace(victims[1], deleted=1.0))
    assert plugin.pre_enqueue(POD) == waits, "it is on its way out, and its room still taken"
    cluster.remove(victims[1])
    assert plugin.pre_enqueue(POD) is None


def test_victims_that_take_their_time_to_leave_keep_nobody_out_once_they_were_told_to() -> None:
    cluster = Cluster()
    plugin = build_plugin(DefaultPreemption, cluster)
    victim = make_pod("victim").on_node("n").build()
    cluster.add(victim)
    plugin.making_room(POD, (victim,))
    cluster.add(msgspec.structs.replace(victim, deleted=1.0))
    plugin.making_room(POD, ())
    assert plugin.pre_enqueue(POD) is None


def test_a_preemption_that_failed_keeps_nobody_out() -> None:
    cluster = Cluster()
    plugin = build_plugin(DefaultPreemption, cluster)
    victim = make_pod("victim").on_node("n").build()
    cluster.add(victim)
    plugin.making_room(POD, (victim,))
    plugin.making_room(POD, ())
    assert plugin.pre_enqueue(POD) is None


def test_a_pod_that_goes_does_not_by_itself_bring_the_preemptor_back() -> None:
    assert not wakes(build_plugin(DefaultPreemption, Cluster()), POD, other().build(), None)
