"""NodeUnschedulable: cordoned nodes and the tolerations that let pods in."""

from __future__ import annotations

import pytest

from stowplan.cluster import Cluster
from stowplan.framework import unresolvable
from stowplan.plugins.node_unschedulable import NodeUnschedulable
from stowplan.testing.builders import make_node, make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.judging import statuses

KEY = "node.kubernetes.io/unschedulable"
REJECTED = unresolvable("node(s) were unschedulable")


def cluster_with_a_cordoned_node() -> Cluster:
    cluster = Cluster()
    cluster.add(make_node("open").build())
    cluster.add(make_node("cordoned").unschedulable().build())
    return cluster


def test_a_cordoned_node_is_rejected() -> None:
    cluster = cluster_with_a_cordoned_node()
    plugin = build_plugin(NodeUnschedulable, cluster)
    assert statuses(plugin, make_pod("p").build(), cluster) == [None, REJECTED]


@pytest.mark.parametrize(
    ("toleration", "lets_in"),
    [
        ({"key": KEY}, True),
        ({"key": KEY, "effect": "NoSchedule"}, True),
        ({}, True),
        ({"key": KEY, "effect": "NoExecute"}, False),
        ({"key": KEY, "value": "x"}, False),
        ({"key": KEY, "value": ""}, True),
        ({"key": "other"}, False),
    ],
)
def test_only_a_toleration_of_the_cordon_lets_a_pod_in(toleration: dict[str, str], lets_in: bool) -> None:
    cluster = cluster_with_a_cordoned_node()
    plugin = build_plugin(NodeUnschedulable, cluster)
    pod = make_pod("p").tolerate(**toleration).build()
    assert plugin.concerns(pod) is not lets_in
    assert statuses(plugin, pod, cluster) == [None, None if lets_in else REJECTED]
    assert plugin.shape(pod) is lets_in
