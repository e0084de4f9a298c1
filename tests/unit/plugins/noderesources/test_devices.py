"""Scoring by an extended resource that devices stand in for: devices are counted, those in use as used."""

from __future__ import annotations

from typing import Any

from stowplan.cluster import Cluster
from stowplan.framework import ASK_ALWAYS
from stowplan.objects import DeviceClass, ResourceClaim, ResourceSlice
from stowplan.plugins.noderesources.balanced import NodeResourcesBalancedAllocation
from stowplan.plugins.noderesources.devices import DeviceCounts
from stowplan.plugins.noderesources.fit import NodeResourcesFit
from stowplan.testing.builders import make_node, make_object, make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.judging import scores

GPU = "example.com/gpu"
DRIVER = "gpu.example.com"


def gpu_class(expression: str = "") -> DeviceClass:
    selectors = [{"cel": {"expression": expression}}] if expression else []
    return make_object(DeviceClass, "gpus", spec={"extendedResourceName": GPU, "selectors": selectors})


def slice_of(name: str, *devices: str, **where: Any) -> ResourceSlice:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    listed = [{"name": device, "attributes": {"kind": {"string": device[0]}}} for device in devices]
    return make_object(ResourceSlice, name, spec={"driver": DRIVER, "pool": pool, "devices": listed} | where)


def claim_of(pool: str, device: str) -> ResourceClaim:
    result = {"request": "r", "driver": DRIVER, "pool": pool, "device": device}
    return make_object(
        ResourceClaim, f"has-{device}", status={"allocation": {"devices": {"results": [result]}}}
    )


def two_nodes() -> Cluster:
    """Four devices on node a, two that both nodes can reach."""
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.add(make_node(name).labels(rack="1").capacity(cpu="10", memory="1000", pods=9).build())
    cluster.add(slice_of("local", "x1", "x2", "y1", "y2", nodeName="a"))
    in_rack = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["1"]}]}
    cluster.add(slice_of("rack", "x8", "x9", nodeSelector={"nodeSelectorTerms": [in_rack]}))
    return cluster


def columns(cluster: Cluster, device_class: DeviceClass) -> tuple[list[int], list[int]]:
    total, taken = DeviceCounts(cluster).columns(device_class)
    return total.tolist(), taken.tolist()


def test_devices_are_counted_where_they_can_be_reached() -> None:
    cluster = two_nodes()
    cluster.add(claim_of("local", "x1"))
    cluster.add(claim_of("rack", "x9"))
    assert columns(cluster, gpu_class()) == ([6, 2], [2, 1])
    only_x = gpu_class(f"device.attributes['{DRIVER}'].kind == 'x'")
    assert columns(cluster, only_x) == ([4, 2], [2, 1])


def test_devices_may_choose_their_nodes_one_by_one() -> None:
    cluster = two_nodes()
    spec = {
        "driver": DRIVER,
        "pool": {"name": "mixed", "generation": 1, "resourceSliceCount": 1},
        "perDeviceNodeSelection": True,
        "devices": [{"name": "m1", "nodeName": "b"}, {"name": "m2", "allNodes": True}],
    }
    cluster.add(make_object(ResourceSlice, "mixed", spec=spec))
    assert columns(cluster, gpu_class())[0] == [7, 4]


def test_a_class_that_cannot_judge_a_device_counts_none_on_the_nodes_that_reach_it() -> None:
    cluster = two_nodes()
    cluster.remove(slice_of("rack"))
    assert columns(cluster, gpu_class("device.attributes['nowhere'].kind == 'x'"))[0] == [0, 0]


def test_counts_follow_claims_slices_and_nodes() -> None:
    cluster = two_nodes()
    counts = DeviceCounts(cluster)
    device_class = gpu_class()
    assert counts.columns(device_class)[1].tolist() == [0, 0]
    cluster.add(claim_of("local", "x1"))
    assert counts.columns(device_class)[1].tolist() == [1, 0]
    cluster.remove(slice_of("local"))
    assert counts.columns(device_class)[0].tolist() == [2, 2]
    cluster.add(make_node("b").build())
    assert counts.columns(device_class)[0].tolist() == [2, 0]


ARGS = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": GPU}]}}


def test_fit_scores_by_devices_where_the_node_advertises_none() -> None:
    cluster = two_nodes()
    cluster.add(gpu_class())
    cluster.add(claim_of("local", "x1"))
    cluster.add(make_node("plugin").capacity({GPU: 4, "pods": 9}).build())
    plugin = build_plugin(NodeResourcesFit, cluster, **ARGS)
    pod = make_pod("p").requests({GPU: 2}).build()
    assert scores(plugin, pod, cluster) == [100 * 3 // 6, 100, 50]
    assert plugin.shape(pod) is ASK_ALWAYS
    assert plugin.shape(make_pod("q").build()) is not ASK_ALWAYS


def test_without_a_class_nothing_stands_in() -> None:
    cluster = two_nodes()
    plugin = build_plugin(NodeResourcesFit, cluster, **ARGS)
    pod = make_pod("p").requests({GPU: 2}).build()
    assert scores(plugin, pod, cluster) == [0, 0]
    assert plugin.shape(pod) is not ASK_ALWAYS


def test_balance_counts_devices_too() -> None:
    cluster = two_nodes()
    cluster.add(gpu_class())
    resources = [{"name": "cpu"}, {"name": GPU}]
    plugin = build_plugin(NodeResourcesBalancedAllocation, cluster, resources=resources)
    pod = make_pod("p").requests({"cpu": "5", GPU: 1}).build()
    # On a: 5 of 10 and 1 of 6, a spread of 16.7 %; on b: 5 of 10 and 1 of 2, even.
    assert scores(plugin, pod, cluster) == [50 + (50 + 83 - 100) // 2, 75]
    assert plugin.shape(pod) is ASK_ALWAYS
