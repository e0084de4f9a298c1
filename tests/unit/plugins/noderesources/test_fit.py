"""NodeResourcesFit's filter: what is lacking, in which order, and whether preemption could help."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.cluster import Cluster
from stowplan.framework import unresolvable, unschedulable
from stowplan.objects import DeviceClass
from stowplan.plugins.noderesources.fit import NodeResourcesFit
from stowplan.testing.builders import make_node, make_object, make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.judging import statuses

GPU = "example.com/gpu"


def cluster_with(capacity: dict[str, str | int], *used: dict[str, str | int]) -> Cluster:
    """One node, and a pod on it for each request."""
    cluster = Cluster()
    cluster.add(make_node("n").capacity({"pods": 10, **capacity}).build())
    for number, request in enumerate(used):
        cluster.add(make_pod(f"used-{number}").requests(request).on_node("n").build())
    return cluster


def test_room_that_is_just_enough_is_enough() -> None:
    cluster = cluster_with({"cpu": "1", "memory": "1Gi"}, {"cpu": "600m", "memory": "512Mi"})
    plugin = build_plugin(NodeResourcesFit, cluster)
    assert statuses(plugin, make_pod("p").requests(cpu="400m", memory="512Mi").build(), cluster) == [None]
    lacking = unschedulable("Insufficient cpu")
    assert statuses(plugin, make_pod("p").requests(cpu="401m", memory="512Mi").build(), cluster) == [lacking]


def test_everything_lacking_is_told_in_order() -> None:
    capacity: dict[str, str | int] = {
        "cpu": "4",
        "memory": "4Gi",
        "ephemeral-storage": "4Gi",
        GPU: 4,
        "pods": 1,
    }
    used: dict[str, str | int] = {"cpu": "3", "memory": "3Gi", "ephemeral-storage": "3Gi", GPU: 3}
    cluster = cluster_with(capacity, used)
    plugin = build_plugin(NodeResourcesFit, cluster)
    want: dict[str, str | int] = {GPU: 2, "ephemeral-storage": "2Gi", "memory": "2Gi", "cpu": "2"}
    assert statuses(plugin, make_pod("p").requests(want).build(), cluster) == [
        unschedulable(
            "Too many pods",
            "Insufficient cpu",
            "Insufficient memory",
            "Insufficient ephemeral-storage",
            f"Insufficient {GPU}",
        )
    ]


def test_more_than_the_whole_node_offers_is_hopeless() -> None:
    cluster = cluster_with({"cpu": "4", "memory": "4Gi"}, {"memory": "3Gi"})
    plugin = build_plugin(NodeResourcesFit, cluster)
    pod = make_pod("p").requests(cpu="5", memory="2Gi").build()
    assert statuses(plugin, pod, cluster) == [unresolvable("Insufficient cpu", "Insufficient memory")]


def test_a_full_number_of_pods_is_never_hopeless() -> None:
    cluster = cluster_with({"pods": 1, "cpu": "4"}, {})
    plugin = build_plugin(NodeResourcesFit, cluster)
    assert statuses(plugin, make_pod("p").build(), cluster) == [unschedulable("Too many pods")]
    nowhere = Cluster()
    nowhere.add(make_node("n").build())
    plugin = build_plugin(NodeResourcesFit, nowhere)
    assert statuses(plugin, make_pod("p").build(), nowhere) == [unschedulable("Too many pods")]


def test_requests_of_zero_fit_even_an_overfull_node() -> None:
    cluster = cluster_with({"cpu": "1"}, {"cpu": "3"})
    plugin = build_plugin(NodeResourcesFit, cluster)
    assert statuses(plugin, make_pod("p").requests({"cpu": "0", GPU: 0}).build(), cluster) == [None]


def test_a_resource_nobody_has_heard_of_is_lacking() -> None:
    cluster = cluster_with({"cpu": "1"})
    plugin = build_plugin(NodeResourcesFit, cluster)
    for name in (GPU, "hugepages-2Mi", "attachable-volumes-aws-ebs", "kubernetes.io/odd"):
        pod = make_pod("p").requests({name: 1}).build()
        assert statuses(plugin, pod, cluster) == [unresolvable(f"Insufficient {name}")]


@pytest.mark.parametrize("name", ["storage", "requests.example.com/gpu"])
def test_names_that_are_no_resources_of_nodes_are_not_looked_at(name: str) -> None:
    cluster = cluster_with({"cpu": "1"})
    plugin = build_plugin(NodeResourcesFit, cluster)
    assert statuses(plugin, make_pod("p").requests({name: 1}).build(), cluster) == [None]


def test_ignored_resources_and_groups_are_left_out() -> None:
    cluster = cluster_with({"cpu": "1"})
    pod = make_pod("p").requests({GPU: 1, "other.org/nic": 1, "hugepages-2Mi": "2Mi"}).build()
    plugin = build_plugin(
        NodeResourcesFit,
        cluster,
        ignoredResources=[GPU, "hugepages-2Mi"],
        ignoredResourceGroups=["other.org"],
    )
    assert statuses(plugin, pod, cluster) == [unresolvable("Insufficient hugepages-2Mi")]


def test_pods_with_equal_needs_share_a_shape() -> None:
    plugin = build_plugin(NodeResourcesFit, Cluster())
    one, other = (
        make_pod("a").requests(cpu="1").build(),
        make_pod("b").requests(cpu="1000m").image("x").build(),
    )
    assert plugin.shape(one) == plugin.shape(other)
    assert plugin.shape(one) != plugin.shape(make_pod("c").requests(cpu="2").build())
    half = make_pod("d").requests(cpu="1").container(name="second").build()
    assert plugin.shape(one) != plugin.shape(half), "scoring counts defaults for the second container"


def test_devices_stand_in_for_a_resource_where_the_node_offers_none() -> None:
    cluster = cluster_with({"cpu": "1", GPU: 0})
    cluster.add(make_node("old").capacity({"cpu": "1", "pods": 9, GPU: 1}).build())
    plugin = build_plugin(NodeResourcesFit, cluster)
    pod = make_pod("p").requests({GPU: 2}).build()
    lacking = unresolvable(f"Insufficient {GPU}")
    assert statuses(plugin, pod, cluster) == [lacking, lacking]
    cluster.add(make_object(DeviceClass, "gpus", spec={"extendedResourceName": GPU}))
    assert statuses(plugin, pod, cluster) == [None, lacking]
    implicit = make_pod("q").requests({"deviceclass.resource.kubernetes.io/gpus": 1}).build()
    assert statuses(plugin, implicit, cluster) == [None, None]
    cluster.remove(make_object(DeviceClass, "gpus"))
    assert statuses(plugin, pod, cluster) == [lacking, lacking]


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "ephemeral-storage", GPU]), st.integers(0, 5))


@settings(max_examples=200)
@given(
    st.lists(st.tuples(AMOUNTS, st.integers(0, 3), st.lists(AMOUNTS, max_size=3)), min_size=1, max_size=5),
    AMOUNTS,
    st.booleans(),
)
def test_columns_and_single_nodes_agree(
    nodes: list[tuple[dict[str, int], int, list[dict[str, int]]]], request: dict[str, int], backed: bool
) -> None:
    cluster = Cluster()
    if backed:
        cluster.add(make_object(DeviceClass, "gpus", spec={"extendedResourceName": GPU}))
    for number, (capacity, pods, placed) in enumerate(nodes):
        cluster.add(make_node(f"n{number}").capacity(capacity | {"pods": pods}).build())
        for i, used in enumerate(placed):
            cluster.add(make_pod(f"p{number}-{i}").requests(used).on_node(f"n{number}").build())
    statuses(build_plugin(NodeResourcesFit, cluster), make_pod("p").requests(request).build(), cluster)


def test_more_resources_than_a_code_has_bits() -> None:
    cluster = cluster_with({"cpu": "1"})
    plugin = build_plugin(NodeResourcesFit, cluster)
    names = [f"example.com/r{number:02}" for number in range(70)]
    pod = make_pod("p").requests(dict.fromkeys(names, 1)).build()
    assert statuses(plugin, pod, cluster) == [unresolvable(*(f"Insufficient {name}" for name in names))]
