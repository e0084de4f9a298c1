"""TaintToleration: hard taints reject, soft ones cost score."""

from __future__ import annotations

import pytest

from stowplan.cluster import Cluster
from stowplan.framework import unresolvable
from stowplan.plugins.taint_toleration import TaintToleration
from stowplan.testing.builders import NodeBuilder, make_node, make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.judging import normalized, scores, statuses

REJECTED = unresolvable("node(s) had untolerated taint(s)")


def cluster_of(*nodes: NodeBuilder) -> Cluster:
    cluster = Cluster()
    for node in nodes:
        cluster.add(node.build())
    return cluster


@pytest.mark.parametrize(
    ("effect", "rejected"), [("NoSchedule", True), ("NoExecute", True), ("PreferNoSchedule", False)]
)
def test_hard_taints_reject_and_soft_ones_do_not(effect: str, rejected: bool) -> None:
    cluster = cluster_of(make_node("n").taint("gpu", "yes", effect))
    plugin = build_plugin(TaintToleration, cluster)
    assert statuses(plugin, make_pod("p").build(), cluster) == [REJECTED if rejected else None]


@pytest.mark.parametrize(
    ("toleration", "lets_in"),
    [
        ({"key": "gpu", "value": "yes", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "value": "yes"}, True),
        ({"key": "gpu"}, True),
        ({}, True),
        ({"key": "gpu", "value": "no"}, False),
        ({"key": "gpu", "value": "yes", "effect": "NoExecute"}, False),
        ({"key": "", "value": "yes"}, True),
        ({"key": "", "value": "no"}, False),
    ],
)
def test_a_toleration_matches_by_key_value_and_effect(toleration: dict[str, str], lets_in: bool) -> None:
    cluster = cluster_of(make_node("n").taint("gpu", "yes"))
    plugin = build_plugin(TaintToleration, cluster)
    pod = make_pod("p").tolerate(**toleration).build()
    assert statuses(plugin, pod, cluster) == [None if lets_in else REJECTED]


def test_every_hard_taint_must_be_tolerated() -> None:
    cluster = cluster_of(make_node("n").taint("a").taint("b"))
    plugin = build_plugin(TaintToleration, cluster)
    assert statuses(plugin, make_pod("p").tolerate("a").build(), cluster) == [REJECTED]
    assert statuses(plugin, make_pod("p").tolerate("a").tolerate("b").build(), cluster) == [None]


def test_operators_of_the_alpha_gate_match_nothing() -> None:
    cluster = cluster_of(make_node("n").taint("level", "5"))
    plugin = build_plugin(TaintToleration, cluster)
    toleration = {"key": "level", "operator": "Lt", "value": "9"}
    pod = make_pod("p").spec(tolerations=[toleration]).build()
    assert statuses(plugin, pod, cluster) == [REJECTED]


def test_soft_taints_are_counted_unless_tolerated() -> None:
    soft = "PreferNoSchedule"
    cluster = cluster_of(
        make_node("clean"),
        make_node("one").taint("a", effect=soft).taint("hard"),
        make_node("two").taint("a", effect=soft).taint("b", effect=soft),
    )
    plugin = build_plugin(TaintToleration, cluster)
    assert scores(plugin, make_pod("p").build(), cluster) == [0, 1, 2]
    assert scores(plugin, make_pod("p").tolerate("a").build(), cluster) == [0, 0, 1]
    hard_only = make_pod("p").tolerate("a", effect="NoSchedule").build()
    assert scores(plugin, hard_only, cluster) == [0, 1, 2]


def test_fewer_soft_taints_score_higher() -> None:
    cluster = cluster_of(make_node("a"), make_node("b"), make_node("c"))
    plugin = build_plugin(TaintToleration, cluster)
    assert normalized(plugin, [0, 1, 3], cluster) == [100, 67, 0]
    assert normalized(plugin, [0, 0, 0], cluster) == [100, 100, 100]


def test_a_new_taint_is_seen() -> None:
    cluster = cluster_of(make_node("n"))
    plugin = build_plugin(TaintToleration, cluster)
    assert statuses(plugin, make_pod("p").build(), cluster) == [None]
    cluster.add(make_node("n").taint("late").build())
    assert statuses(plugin, make_pod("p").build(), cluster) == [REJECTED]
