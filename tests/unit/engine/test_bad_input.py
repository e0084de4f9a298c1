"""An object with values that make no sense harms, if anything, its own pod; others are decided as before."""

from __future__ import annotations

import pytest

from stowplan.framework import Code
from stowplan.objects import Node
from stowplan.testing.builders import make_node, make_pod
from stowplan.testing.deciding import cluster_of, scheduler

ABSURD = ("-1", "-8Ei", "9223372036854775807", "1e30")
RESOURCES = ("cpu", "memory", "pods", "ephemeral-storage", "example.com/gpu")


def nodes() -> list[Node]:
    return [
        make_node("n0").labels(zone="x").capacity(cpu=4, memory="8Gi", pods=10).build(),
        make_node("n1").labels(zone="y").capacity(cpu=8, memory="16Gi", pods=10).build(),
    ]


@pytest.mark.parametrize("resource", RESOURCES)
@pytest.mark.parametrize("quantity", ABSURD)
def test_absurd_requests_of_a_placed_pod_neither_make_room_nor_stop_others(
    resource: str, quantity: str
) -> None:
    odd = [make_pod(f"odd{i}").requests({resource: quantity}).on_node("n0") for i in range(3)]
    cluster = cluster_of(*nodes(), make_pod("there").requests(cpu=1, memory="1Gi").on_node("n0"), *odd)
    core = scheduler(cluster)
    decision = core.decide(make_pod("ordinary").requests({"cpu": 1, "memory": "1Gi"}).build())
    assert decision.node_name == "n1", decision.message
    too_big = core.decide(make_pod("big").node_selector(zone="x").requests(cpu="3500m").build())
    assert too_big.node_name is None
    assert too_big.status is not None and too_big.status.code is Code.UNSCHEDULABLE


@pytest.mark.parametrize("resource", RESOURCES)
@pytest.mark.parametrize("quantity", ABSURD)
def test_absurd_capacities_of_a_node_stop_no_pod(resource: str, quantity: str) -> None:
    odd = make_node("odd").capacity(cpu=1, memory="1Gi", pods=1).capacity({resource: quantity})
    core = scheduler(cluster_of(*nodes(), odd))
    decision = core.decide(make_pod("ordinary").requests({"cpu": 1, "memory": "1Gi"}).build())
    assert decision.node_name, decision.message
    assert decision.node_name != "odd" or quantity in ABSURD[2:]


@pytest.mark.parametrize("resource", ["cpu", "memory", "example.com/gpu"])
@pytest.mark.parametrize("quantity", ABSURD[2:])
def test_a_pod_that_asks_for_more_than_there_is_anywhere_fits_nowhere(resource: str, quantity: str) -> None:
    decision = scheduler(cluster_of(*nodes())).decide(make_pod("odd").requests({resource: quantity}).build())
    assert decision.status is not None and decision.status.code is Code.UNSCHEDULABLE
    assert f"2 Insufficient {resource}" in decision.message
