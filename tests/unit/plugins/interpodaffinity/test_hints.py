"""Friends that come near and foes that leave bring back pods that mind others."""

from __future__ import annotations

import pytest

from stowplan.cluster import Cluster
from stowplan.objects import Node, Pod
from stowplan.plugins.interpodaffinity.plugin import InterPodAffinity
from stowplan.testing.builders import make_node, make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.waking import wakes

NEAR_DB = make_pod("p").labels(app="web").pod_affinity("zone", app="db").build()
FAR_FROM_DB = make_pod("p").labels(app="web").pod_anti_affinity("zone", app="db").build()


@pytest.fixture
def plugin() -> InterPodAffinity:
    return build_plugin(InterPodAffinity, Cluster())


def placed(app: str, namespace: str = "default") -> Pod:
    return make_pod("other", namespace).labels(app=app).on_node("n1").build()


def node(**labels: str) -> Node:
    return make_node("n1").labels(labels).build()


def test_a_friend_that_comes(plugin: InterPodAffinity) -> None:
    assert wakes(plugin, NEAR_DB, None, placed("db"))
    assert not wakes(plugin, NEAR_DB, None, placed("web"))
    assert not wakes(plugin, NEAR_DB, None, placed("db", "else"))
    assert not wakes(plugin, FAR_FROM_DB, None, placed("db"))
    assert not wakes(plugin, NEAR_DB, placed("db"), None)


def test_one_pod_must_be_all_that_is_wanted(plugin: InterPodAffinity) -> None:
    demanding = make_pod("p").pod_affinity("zone", app="db").pod_affinity("zone", tier="back").build()
    assert not wakes(plugin, demanding, None, placed("db"))
    both = make_pod("other").labels(app="db", tier="back").on_node("n1").build()
    assert wakes(plugin, demanding, None, both)


def test_a_foe_that_goes(plugin: InterPodAffinity) -> None:
    assert wakes(plugin, FAR_FROM_DB, placed("db"), None)
    assert not wakes(plugin, FAR_FROM_DB, placed("cache"), None)
    hater = make_pod("hater").pod_anti_affinity("zone", app="web").on_node("n1").build()
    assert wakes(plugin, NEAR_DB, hater, None), "the pod that hated this one is gone"
    assert not wakes(plugin, FAR_FROM_DB, make_pod("other").labels(app="db").build(), None)


def test_pods_that_become_friends_or_cease_to_be_foes(plugin: InterPodAffinity) -> None:
    assert wakes(plugin, NEAR_DB, placed("cache"), placed("db"))
    assert not wakes(plugin, NEAR_DB, placed("db"), placed("cache"))
    assert wakes(plugin, FAR_FROM_DB, placed("db"), placed("cache"))
    assert not wakes(plugin, FAR_FROM_DB, placed("cache"), placed("db"))


def test_its_own_new_labels(plugin: InterPodAffinity) -> None:
    assert wakes(plugin, NEAR_DB, NEAR_DB, make_pod("p").labels(app="other").build())


def test_nodes_that_bring_or_change_domains(plugin: InterPodAffinity) -> None:
    for pod in (NEAR_DB, FAR_FROM_DB):
        assert wakes(plugin, pod, None, node(zone="a"))
        assert wakes(plugin, pod, node(zone="a"), node(zone="b"))
        assert not wakes(plugin, pod, node(zone="a"), node(zone="a", disk="ssd"))
    assert wakes(plugin, NEAR_DB, node(), node(zone="a"))
    assert not wakes(plugin, NEAR_DB, node(zone="a"), node())
    assert not wakes(plugin, NEAR_DB, None, node())
    assert wakes(plugin, FAR_FROM_DB, None, node())
    assert wakes(plugin, FAR_FROM_DB, node(zone="a"), node())
    assert not wakes(plugin, FAR_FROM_DB, node(), node(zone="a"))


def test_a_pod_that_is_hated_hears_of_its_haters_only(plugin: InterPodAffinity) -> None:
    plain = make_pod("p").labels(app="web").build()
    assert not wakes(plugin, plain, None, node(zone="a"))
    assert not wakes(plugin, plain, None, placed("db"))
