"""Room that gets free, bigger nodes and devices bring back pods that did not fit."""

from __future__ import annotations

import pytest

from stowplan.cluster import Cluster
from stowplan.objects import DeviceClass, Node
from stowplan.plugins.noderesources.fit import NodeResourcesFit
from stowplan.testing.builders import make_node, make_object, make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.waking import wakes

POD = make_pod("p").requests(cpu="2").build()
GPU_POD = make_pod("p").requests({"example.com/gpu": "1"}).build()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def plugin(cluster: Cluster) -> NodeResourcesFit:
    return build_plugin(NodeResourcesFit, cluster)


def node(**offers: int | str) -> Node:
    return make_node("n1").capacity({"pods": 10, "cpu": 4, **offers}).build()


def test_any_pod_that_goes_from_a_node_leaves_room(plugin: NodeResourcesFit) -> None:
    assert wakes(plugin, POD, make_pod("other").on_node("n1").build(), None)
    assert wakes(plugin, POD, make_pod("other").nominated("n1").build(), None)
    assert not wakes(plugin, POD, make_pod("other").build(), None)


def test_a_pod_that_shrinks_leaves_room_for_who_wants_that(plugin: NodeResourcesFit) -> None:
    big = make_pod("other").requests(cpu="2", memory="2Gi")
    less_cpu = make_pod("other").requests(cpu="1", memory="2Gi")
    less_memory = make_pod("other").requests(cpu="2", memory="1Gi")
    assert wakes(plugin, POD, big.on_node("n1").build(), less_cpu.on_node("n1").build())
    assert not wakes(plugin, POD, big.on_node("n1").build(), less_memory.on_node("n1").build())


def test_of_pending_pods_only_its_own_shrinking_helps_a_pod(plugin: NodeResourcesFit) -> None:
    assert wakes(plugin, POD, POD, make_pod("p").requests(cpu="1").build())
    assert not wakes(
        plugin, POD, make_pod("q").requests(cpu="2").build(), make_pod("q").requests(cpu="1").build()
    )


@pytest.mark.parametrize(
    ("offers", "helps"),
    [({}, True), ({"cpu": 1}, False), ({"pods": 0}, False)],
)
def test_a_new_node_helps_if_the_pod_would_fit_were_it_empty(
    plugin: NodeResourcesFit, offers: dict[str, int], helps: bool
) -> None:
    assert wakes(plugin, POD, None, node(**offers)) is helps


def test_a_node_that_grew_helps_if_it_offers_more_of_what_is_wanted(plugin: NodeResourcesFit) -> None:
    assert wakes(plugin, POD, node(cpu=1), node())
    assert wakes(plugin, POD, node(), node(cpu=5))
    assert wakes(plugin, POD, node(), node(pods=11))
    assert not wakes(plugin, POD, node(), node(memory="1Gi"))
    assert not wakes(plugin, POD, node(cpu=5), node())
    assert not wakes(plugin, POD, node(cpu=1, pods=1), node(cpu=1, pods=5))


def gpu_class(name: str = "gpu", resource: str | None = "example.com/gpu") -> DeviceClass:
    return make_object(DeviceClass, name, spec={"extendedResourceName": resource} if resource else {})


def test_devices_stand_in_for_what_a_node_does_not_offer(cluster: Cluster, plugin: NodeResourcesFit) -> None:
    assert not wakes(plugin, GPU_POD, None, node())
    cluster.add(gpu_class())
    assert wakes(plugin, GPU_POD, None, node())
    assert wakes(plugin, GPU_POD, node(), node(cpu=5)), "the devices may have come with it"


def test_a_class_that_stands_for_a_wanted_resource_brings_pods_back(plugin: NodeResourcesFit) -> None:
    assert wakes(plugin, GPU_POD, None, gpu_class())
    assert wakes(plugin, GPU_POD, gpu_class(resource=None), gpu_class())
    assert not wakes(plugin, GPU_POD, gpu_class(), gpu_class())
    assert not wakes(plugin, GPU_POD, None, gpu_class(resource="example.com/other"))
    assert not wakes(plugin, POD, None, gpu_class())


def test_a_class_can_be_asked_for_by_its_own_name(plugin: NodeResourcesFit) -> None:
    pod = make_pod("p").requests({"deviceclass.resource.kubernetes.io/gpu": "1"}).build()
    assert wakes(plugin, pod, None, gpu_class(resource=None))
    assert not wakes(plugin, pod, None, gpu_class("tpu", resource=None))
