"""Judging all nodes in columns gives what trying each node in turn gives, whatever happened before."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.cluster import Cluster
from stowplan.objects import PodDisruptionBudget
from stowplan.testing.builders import make_node, make_object, make_pod
from tests.unit.plugins.defaultpreemption.worlds import (
    APPS,
    CPUS,
    MEMORY,
    NAMES,
    PRIORITIES,
    STARTS,
    NamesBelowThree,
    World,
)


def _budget(name: str, app: str, allowed: int, disrupted: list[str]) -> PodDisruptionBudget:
    return make_object(
        PodDisruptionBudget,
        name,
        spec={"selector": {"matchLabels": {"app": app}}},
        status={
            "disruptionsAllowed": allowed,
            "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z"),
        },
    )


@given(data=st.data())
@settings(max_examples=60)
def test_columns_agree_with_trials(data: st.DataObject) -> None:
    cluster = Cluster()
    world = World(cluster, *([NamesBelowThree] if data.draw(st.booleans(), "one more filter") else []))
    pods: list[str] = []
    for step in range(data.draw(st.integers(1, 6), "steps")):
        for i in range(data.draw(st.integers(0, 5), "nodes")):
            offered = {"cpu": data.draw(st.sampled_from(["1", "2", "4"])), "memory": "4Gi", "pods": "5"}
            node = make_node(data.draw(NAMES)).capacity(**offered)
            cluster.add(node.spec(unschedulable=data.draw(st.booleans()) and i == 0).build())
        for _ in range(data.draw(st.integers(0, 8), "pods")):
            name = f"p{data.draw(st.integers(0, 20))}"
            pod = make_pod(name).labels(app=data.draw(APPS)).uid(name)
            pod = pod.requests(cpu=data.draw(CPUS), memory=data.draw(MEMORY))
            pod = pod.spec(priority=data.draw(PRIORITIES), nodeName=data.draw(NAMES))
            cluster.add(pod.status(startTime=data.draw(STARTS)).build())
            pods.append(name)
        if data.draw(st.booleans(), "budget"):
            budget, app = data.draw(st.sampled_from(["x", "y"])), data.draw(APPS)
            disrupted = data.draw(st.lists(st.sampled_from(pods or ["p"]), max_size=2))
            cluster.add(_budget(budget, app, data.draw(st.integers(0, 2)), disrupted))
        if data.draw(st.booleans(), "remove a pod") and pods:
            cluster.remove_pod(data.draw(st.sampled_from(pods)))
        if data.draw(st.booleans(), "remove a node"):
            cluster.remove_node(data.draw(NAMES))
        if data.draw(st.booleans(), "nominate"):
            other = make_pod(f"other{step}").requests(cpu="1").spec(priority=data.draw(PRIORITIES))
            cluster.nominations.add(other.build(), data.draw(NAMES))
        _check(world, data)


def _check(world: World, data: st.DataObject) -> None:
    pod = make_pod("preemptor").requests(cpu=data.draw(CPUS), memory=data.draw(MEMORY))
    preemptor = pod.spec(priority=data.draw(st.sampled_from([0, 5, 10, 15, 100]))).build()
    decision = world.decide(preemptor)
    if decision.node_name is not None or not world.cluster.table.size:
        return
    with world.cluster.trial():  # where nothing is remembered, and every node is tried
        afresh = world.decide(preemptor)
    assert bool(afresh.nominated_node) == bool(decision.nominated_node)
    trace = world.trace(preemptor)
    if not trace.chosen:
        assert decision.nominated_node == ""
        assert decision.rejections is not None
        assert decision.message == f"{decision.rejections.message} {trace.message}"
        return
    assert decision.nominated_node in trace.chosen
    victims = trace.candidates[decision.nominated_node]
    assert tuple(victim.key for victim in decision.victims) == victims.pods


def test_victims_are_the_newest_records() -> None:
    """What is remembered of a pod may be older than what the cluster knows."""
    cluster = Cluster()
    cluster.add(make_node("n").capacity(cpu="1", pods="5").build())
    low = make_pod("low").requests(cpu="1").spec(nodeName="n").build()
    cluster.add(low)
    world = World(cluster)
    high = make_pod("high").requests(cpu="1").spec(priority=10).build()
    world.decide(high)
    cluster.add(msgspec.structs.replace(low, resource_version="2"))
    assert world.decide(high).victims[0].resource_version == "2"
