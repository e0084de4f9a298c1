"""Pods that are counted, and domains that come and go, bring back pods that would not have been spread."""

from __future__ import annotations

import pytest

from stowplan.cluster import Cluster
from stowplan.objects import Node, Pod
from stowplan.plugins.podtopologyspread.plugin import PodTopologySpread
from stowplan.testing.builders import PodBuilder, make_node, make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.waking import wakes

WEB = make_pod("p").labels(app="web").spread("zone", app="web").build()


@pytest.fixture
def plugin() -> PodTopologySpread:
    return build_plugin(PodTopologySpread, Cluster())


def other(app: str = "web", namespace: str = "default") -> PodBuilder:
    return make_pod("other", namespace).labels(app=app)


def on_node(app: str = "web", namespace: str = "default") -> Pod:
    return other(app, namespace).on_node("n1").build()


def node(**labels: str) -> Node:
    return make_node("n1").labels(labels).build()


def test_a_counted_pod_that_comes_or_goes(plugin: PodTopologySpread) -> None:
    assert wakes(plugin, WEB, None, on_node())
    assert wakes(plugin, WEB, on_node(), None)
    assert not wakes(plugin, WEB, on_node("db"), None)
    assert not wakes(plugin, WEB, None, on_node(namespace="else"))
    assert not wakes(plugin, WEB, other().build(), None), "a pod on no node was not counted"


def test_a_pod_that_begins_or_ceases_to_count(plugin: PodTopologySpread) -> None:
    assert wakes(plugin, WEB, on_node("db"), on_node())
    assert wakes(plugin, WEB, on_node(), on_node("db"))
    assert not wakes(plugin, WEB, on_node("db"), on_node("cache"))


def test_a_new_toleration_where_taints_count(plugin: PodTopologySpread) -> None:
    def pod(policy: str) -> PodBuilder:
        built = make_pod("p").labels(app="web").spread("zone", app="web")
        built.manifest["spec"]["topologySpreadConstraints"][0]["nodeTaintsPolicy"] = policy
        return built

    for policy in ("Honor", "Ignore"):
        before, after = pod(policy).build(), pod(policy).tolerate("a").build()
        assert wakes(plugin, after, before, after) is (policy == "Honor")


def test_a_domain_that_comes_goes_or_changes(plugin: PodTopologySpread) -> None:
    zone_a, zone_b, none = node(zone="a"), node(zone="b"), node()
    assert wakes(plugin, WEB, None, zone_a)
    assert wakes(plugin, WEB, zone_a, None)
    assert wakes(plugin, WEB, zone_a, zone_b)
    assert wakes(plugin, WEB, zone_a, none)
    assert wakes(plugin, WEB, none, zone_a)
    assert not wakes(plugin, WEB, None, none)
    assert not wakes(plugin, WEB, none, None)
    assert not wakes(plugin, WEB, zone_a, node(zone="a", disk="ssd"))
    assert not wakes(plugin, WEB, none, node(disk="ssd"))


def test_taints_of_a_node_in_a_domain(plugin: PodTopologySpread) -> None:
    tainted = make_node("n1").labels(zone="a").taint("a").build()
    assert wakes(plugin, WEB, tainted, node(zone="a"))
    assert not wakes(plugin, WEB, make_node("n1").taint("a").build(), node())
