"""NodeName: the node that the pod names, and no other."""

from __future__ import annotations

from stowplan.cluster import Cluster
from stowplan.framework import CycleState, unresolvable
from stowplan.plugins.node_name import NodeName
from stowplan.testing.builders import make_node, make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.judging import statuses

REJECTED = unresolvable("node(s) didn't match the requested node name")


def two_nodes() -> Cluster:
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.add(make_node(name).build())
    return cluster


def test_only_the_named_node_will_do() -> None:
    cluster = two_nodes()
    plugin = build_plugin(NodeName, cluster)
    assert statuses(plugin, make_pod("p").on_node("b").build(), cluster) == [REJECTED, None]
    assert statuses(plugin, make_pod("p").on_node("gone").build(), cluster) == [REJECTED, REJECTED]


def test_a_pod_that_names_no_node_is_none_of_its_business() -> None:
    cluster = two_nodes()
    plugin = build_plugin(NodeName, cluster)
    pod = make_pod("p").build()
    assert not plugin.concerns(pod)
    assert statuses(plugin, pod, cluster) == [None, None]


def test_some_rows_are_judged_as_all_are() -> None:
    cluster = two_nodes()
    plugin = build_plugin(NodeName, cluster)
    some = cluster.nodes.where(cluster.nodes.mask([1]))
    pod = make_pod("p").on_node("b").build()
    assert plugin.filter(CycleState(), pod, some).passed.tolist() == [True]
