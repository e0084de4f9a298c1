"""NodeDeclaredFeatures: what pods need that not every kubelet can do."""

from __future__ import annotations

from stowplan.cluster import Cluster
from stowplan.framework import SKIP, CycleState, unresolvable
from stowplan.plugins.node_declared_features import (
    RESTART_ALL_CONTAINERS,
    USER_NAMESPACES_HOST_NETWORK,
    NodeDeclaredFeatures,
    required_features,
)
from stowplan.testing.builders import make_node, make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.judging import statuses

MISSING = unresolvable("node(s) didn't match Pod's required features")
RULES = {"restartPolicyRules": [{"action": "RestartAllContainers"}]}


def three_nodes() -> Cluster:
    cluster = Cluster()
    cluster.add(make_node("none").build())
    cluster.add(make_node("one").features(USER_NAMESPACES_HOST_NETWORK).build())
    cluster.add(make_node("both").features(RESTART_ALL_CONTAINERS, USER_NAMESPACES_HOST_NETWORK).build())
    return cluster


def test_an_ordinary_pod_needs_nothing() -> None:
    cluster = three_nodes()
    plugin = build_plugin(NodeDeclaredFeatures, cluster)
    for pod in (make_pod("p").build(), make_pod("p").spec(hostNetwork=True).build()):
        assert not plugin.concerns(pod)
        assert plugin.pre_filter(CycleState(), pod, cluster.nodes) == SKIP


def test_all_needed_features_must_be_declared() -> None:
    cluster = three_nodes()
    plugin = build_plugin(NodeDeclaredFeatures, cluster)
    network = make_pod("p").spec(hostNetwork=True, hostUsers=False).build()
    assert statuses(plugin, network, cluster) == [MISSING, None, None]
    container = {"name": "c", "image": "c"} | RULES
    both = make_pod("p").spec(hostNetwork=True, hostUsers=False, initContainers=[container]).build()
    assert statuses(plugin, both, cluster) == [MISSING, MISSING, None]


def test_rules_of_main_and_init_containers_count() -> None:
    container = {"name": "c", "image": "c"} | RULES
    for kind in ("containers", "initContainers"):
        pod = make_pod("p").spec(**{kind: [container]}).build()
        assert required_features(pod.spec) == {RESTART_ALL_CONTAINERS}
