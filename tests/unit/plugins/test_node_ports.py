"""NodePorts: which host ports get into each other's way."""

from __future__ import annotations

import pytest

from stowplan.cluster import Cluster
from stowplan.framework import SKIP, CycleState, unschedulable
from stowplan.plugins.node_ports import NodePorts
from stowplan.testing.builders import make_node, make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.judging import statuses

TAKEN = unschedulable("node(s) didn't have free ports for the requested pod ports")


def cluster_with_ports(*ports: tuple[int, str, str]) -> Cluster:
    """Two nodes; the first has a pod with these ports."""
    cluster = Cluster()
    cluster.add(make_node("a").build())
    cluster.add(make_node("b").build())
    pod = make_pod("there").on_node("a")
    for port, protocol, ip in ports:
        pod.host_port(port, protocol, ip)
    cluster.add(pod.build())
    return cluster


def test_a_port_that_two_pods_took_is_free_when_both_are_gone() -> None:
    cluster = cluster_with_ports((80, "TCP", ""))
    cluster.add(make_pod("too").on_node("a").host_port(80).build())
    plugin = build_plugin(NodePorts, cluster)
    pod = make_pod("new").host_port(80).build()
    for name, there in (("there", TAKEN), ("too", None)):
        cluster.remove(make_pod(name).build())
        assert statuses(plugin, pod, cluster) == [there, None]


@pytest.mark.parametrize(
    ("taken", "wanted", "conflict"),
    [
        ((80, "TCP", ""), (80, "TCP", ""), True),
        ((80, "TCP", ""), (81, "TCP", ""), False),
        ((80, "TCP", ""), (80, "UDP", ""), False),
        ((80, "", ""), (80, "TCP", "0.0.0.0"), True),
        ((80, "TCP", "10.0.0.1"), (80, "TCP", "10.0.0.1"), True),
        ((80, "TCP", "10.0.0.1"), (80, "TCP", "10.0.0.2"), False),
        ((80, "TCP", "0.0.0.0"), (80, "TCP", "10.0.0.2"), True),
        ((80, "TCP", "10.0.0.1"), (80, "TCP", ""), True),
    ],
)
def test_ports_conflict_by_protocol_number_and_address(
    taken: tuple[int, str, str], wanted: tuple[int, str, str], conflict: bool
) -> None:
    cluster = cluster_with_ports(taken)
    plugin = build_plugin(NodePorts, cluster)
    pod = make_pod("new").host_port(*wanted).build()
    assert statuses(plugin, pod, cluster) == [TAKEN if conflict else None, None]


def test_one_conflict_of_several_is_enough() -> None:
    cluster = cluster_with_ports((80, "TCP", ""), (443, "TCP", ""))
    plugin = build_plugin(NodePorts, cluster)
    pod = make_pod("new").host_port(8080).host_port(443).build()
    assert statuses(plugin, pod, cluster) == [TAKEN, None]


def test_ports_are_free_again_when_the_pod_is_gone() -> None:
    cluster = cluster_with_ports((80, "TCP", ""))
    plugin = build_plugin(NodePorts, cluster)
    pod = make_pod("new").host_port(80).build()
    (placed,) = cluster.pods.values()
    cluster.remove(placed)
    assert statuses(plugin, pod, cluster) == [None, None]


def test_a_pod_without_host_ports_is_skipped() -> None:
    cluster = cluster_with_ports((80, "TCP", ""))
    plugin = build_plugin(NodePorts, cluster)
    pod = make_pod("new").build()
    assert not plugin.concerns(pod)
    assert plugin.pre_filter(CycleState(), pod, cluster.nodes) == SKIP


def test_ports_of_sidecars_count_and_those_of_other_init_containers_do_not() -> None:
    cluster = cluster_with_ports((80, "TCP", ""))
    plugin = build_plugin(NodePorts, cluster)
    init = {"name": "i", "image": "i", "ports": [{"hostPort": 80, "containerPort": 80}]}
    assert not plugin.concerns(make_pod("new").spec(initContainers=[init]).build())
    sidecar = make_pod("new").spec(initContainers=[init | {"restartPolicy": "Always"}]).build()
    assert statuses(plugin, sidecar, cluster) == [TAKEN, None]
