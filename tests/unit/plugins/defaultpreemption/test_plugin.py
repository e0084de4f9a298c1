"""Who may preempt, what is said when no node will do, and how far the search goes."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.cluster import Cluster
from stowplan.engine.explain import explain
from stowplan.framework import CycleState, FilterPlugin, PreFilterPlugin, Reads, Status, unschedulable
from stowplan.framework.contract import Plugin
from stowplan.framework.cycle import run_pre_filters
from stowplan.framework.status import Code
from stowplan.objects import DeviceClass, Pod
from stowplan.plugins.defaultpreemption import DefaultPreemption
from stowplan.plugins.defaultpreemption.plugin import DefaultPreemptionArgs
from stowplan.plugins.defaultpreemption.room import room_rule
from stowplan.plugins.defaultpreemption.trial import try_node
from stowplan.testing.builders import make_node, make_object, make_pod
from stowplan.testing.deciding import decide
from tests.unit.plugins.defaultpreemption.worlds import World


def _cluster(nodes: int = 1, cpu: str = "1") -> Cluster:
    cluster = Cluster()
    for i in range(nodes):
        cluster.add(make_node(f"n{i}").capacity(cpu=cpu, pods="10").build())
    return cluster


def _low(name: str, node: str = "n0", cpu: str = "1", **spec: Any) -> Pod:
    return make_pod(name).requests(cpu=cpu).spec(nodeName=node, **spec).build()


def _high(cpu: str = "1", **spec: Any) -> Pod:
    return make_pod("high").requests(cpu=cpu).spec(priority=10, **spec).build()


def test_the_node_is_promised_and_the_victims_are_named() -> None:
    cluster = _cluster()
    cluster.add(_low("low"))
    decision = World(cluster).decide(_high())
    assert decision.nominated_node == "n0"
    assert [victim.name for victim in decision.victims] == ["low"]
    assert decision.message == "0/1 nodes are available: 1 Insufficient cpu."


def test_every_attempt_counts_whatever_comes_of_it() -> None:
    cluster = _cluster()
    cluster.add(_low("low"))
    world = World(cluster)
    (plugin,) = (one for one in world.profile.post_filters if isinstance(one, DefaultPreemption))
    for pod in (_high(), _high(cpu="2"), _high(preemptionPolicy="Never")):
        world.decide(pod)
    assert plugin.attempts == 3


def test_equal_priority_is_no_victim() -> None:
    cluster = _cluster()
    cluster.add(_low("equal", priority=10))
    decision = World(cluster).decide(_high())
    assert decision.nominated_node == "" and not decision.victims
    assert decision.message == (
        "0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_what_would_still_be_lacking_is_said() -> None:
    cluster = _cluster(3)
    cluster.add(_low("a", "n0", "500m", priority=20))
    cluster.add(_low("b", "n0", "500m"))
    cluster.add(_low("c", "n1"))
    cluster.put_node(make_node("n1").capacity(cpu="1", pods="10").spec(unschedulable=True).build())
    cluster.put_node(make_node("n2").capacity(cpu="500m", pods="10").build())
    decision = World(cluster).decide(_high())
    assert decision.nominated_node == ""
    assert decision.message.endswith(
        "preemption: 0/3 nodes are available: 1 Insufficient cpu, 2 Preemption is not helpful for scheduling."
    )


def test_preemption_policy_never() -> None:
    cluster = _cluster()
    cluster.add(_low("low"))
    decision = World(cluster).decide(_high(preemptionPolicy="Never"))
    assert decision.nominated_node is None
    assert decision.message.endswith("preemption: not eligible due to preemptionPolicy=Never.")


def _leaving(reason: str = "PreemptionByScheduler", **spec: Any) -> Pod:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    pod = make_pod("leaving").requests(cpu="1").spec(nodeName="n0", **spec)
    return pod.terminating().status(conditions=[condition]).build()


def _nominated(node: str = "n0") -> Pod:
    return make_pod("high").requests(cpu="1").spec(priority=10).status(nominatedNodeName=node).build()


def test_a_pod_whose_victims_are_leaving_waits() -> None:
    cluster = _cluster()
    cluster.add(_leaving())
    decision = World(cluster).decide(_nominated())
    assert decision.nominated_node is None
    assert decision.message.endswith(
        "preemption: not eligible due to a terminating pod on the nominated node."
    )


@pytest.mark.parametrize(
    ("leaving", "nominated"),
    [(_leaving("EvictionByEvictionAPI"), "n0"), (_leaving(), "gone"), (_leaving(), "")],
    ids=["leaves for another reason", "node is gone", "not nominated"],
)
def test_it_does_not_wait_otherwise(leaving: Pod, nominated: str) -> None:
    cluster = _cluster()
    cluster.add(leaving)
    assert World(cluster).decide(_nominated(nominated)).nominated_node == "n0"


def test_it_does_not_wait_for_more_important_pods() -> None:
    cluster = _cluster()
    cluster.add(_leaving(priority=50))
    assert "No preemption victims found" in World(cluster).decide(_nominated()).message


def test_it_does_not_wait_for_a_node_that_it_cannot_get() -> None:
    cluster = _cluster(2)
    cluster.add(_leaving())
    cluster.put_node(make_node("n0").capacity(cpu="1", pods="10").spec(unschedulable=True).build())
    cluster.add(_low("low", "n1"))
    assert World(cluster).decide(_nominated()).nominated_node == "n1"


def test_rooms_promised_to_others_are_taken() -> None:
    """The promised pod needs the place of one victim, so the preemptor must remove the other as well."""
    cluster = _cluster(cpu="2")
    cluster.add(_low("a"))
    cluster.add(_low("b"))
    other = make_pod("other").requests(cpu="1").spec(priority=10).build()
    cluster.nominations.add(other, "n0")
    decision = World(cluster).decide(_high())
    assert {victim.name for victim in decision.victims} == {"a", "b"}


class Lonely(PreFilterPlugin, FilterPlugin):
    """Wants the node for itself, and keeps count by AddPod and RemovePod: more than room matters."""

    reads = Reads.CLUSTER

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Any) -> None:
        state[Lonely] = {node.name: node.pod_count for node in nodes}

    def add_pod(self, state: CycleState, pod: Pod, other: Pod, node: Any) -> None:
        state[Lonely] = state[Lonely] | {node.name: state[Lonely][node.name] + 1}

    def remove_pod(self, state: CycleState, pod: Pod, other: Pod, node: Any) -> None:
        state[Lonely] = state[Lonely] | {node.name: state[Lonely][node.name] - 1}

    def filter_node(self, state: CycleState, pod: Pod, node: Any) -> Status | None:
        return unschedulable("is not alone") if state[Lonely][node.name] else None


def _rule(cluster: Cluster, *more: type[Plugin], pod: Pod | None = None) -> object:
    world, pod = World(cluster, *more), pod or _high()
    state = CycleState()
    run_pre_filters(world.profile, state, pod)
    return room_rule(world.profile, state, pod)


def test_all_nodes_are_judged_at_once_only_where_room_is_all_that_matters() -> None:
    assert _rule(_cluster()) is not None
    assert _rule(_cluster(), Lonely) is None


def test_devices_that_stand_in_for_a_resource_are_more_than_room() -> None:
    cluster = _cluster()
    wants_gpu = _high(containers=[{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}])
    cluster.put_node(make_node("n0").capacity({"cpu": "1", "pods": "10", "example.com/gpu": "1"}).build())
    assert _rule(cluster, pod=wants_gpu) is not None
    cluster.add(make_object(DeviceClass, "gpus", spec={"extendedResourceName": "example.com/gpu"}))
    assert _rule(cluster, pod=wants_gpu) is None


def test_other_filters_are_asked_about_every_removal() -> None:
    cluster = _cluster(2, cpu="4")
    for name, node in (("a", "n0"), ("b", "n0"), ("c", "n1")):
        cluster.add(_low(name, node))
    decision = World(cluster, Lonely).decide(_high())
    assert decision.nominated_node == "n1"
    assert [victim.name for victim in decision.victims] == ["c"]


@pytest.mark.parametrize(("enough", "tried"), [(1, 1), (3, 3), (100, 5)])
def test_enough_candidates_end_the_search(enough: int, tried: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _cluster(5)
    for i in range(5):
        cluster.add(_low(f"p{i}", f"n{i}"))
    world = World(cluster, Lonely, min_candidate_nodes_percentage=0, min_candidate_nodes_absolute=enough)
    asked: list[int] = []

    def counted(*args: Any) -> Any:
        asked.append(args[3])
        return try_node(*args)

    monkeypatch.setattr("stowplan.plugins.defaultpreemption.plugin.try_node", counted)
    assert world.decide(_high()).nominated_node
    assert len(asked) == tried
    trace = explain(world.profile, _high()).preemption
    assert trace is not None and len(trace.candidates) == 5


def test_a_filter_that_fails_is_an_error_only_when_no_other_node_will_do() -> None:
    class Fragile(FilterPlugin):
        reads = Reads.CLUSTER

        def filter_node(self, state: CycleState, pod: Pod, node: Any) -> Status | None:
            if node.pods:
                return unschedulable("is taken")
            if node.name == "n0":
                raise RuntimeError("boom")
            return None

    cluster = _cluster(1)
    cluster.add(_low("a", "n0"))
    decision = World(cluster, Fragile).decide(_high())
    assert decision.nominated_node is None
    assert "boom" in decision.message
    cluster.add(make_node("n1").capacity(cpu="1", pods="10").build())
    cluster.add(_low("b", "n1"))
    assert World(cluster, Fragile).decide(_high()).nominated_node == "n1"


@pytest.mark.parametrize(
    ("percentage", "absolute", "nodes", "enough"),
    [(10, 100, 5000, 500), (10, 100, 500, 100), (10, 100, 20, 20), (0, 1, 50, 1), (33, 0, 10, 3)],
)
def test_how_many_candidates_are_enough(percentage: int, absolute: int, nodes: int, enough: int) -> None:
    args = DefaultPreemptionArgs(
        min_candidate_nodes_percentage=percentage, min_candidate_nodes_absolute=absolute
    )
    assert args.enough(nodes) == enough


@pytest.mark.parametrize(
    ("percentage", "absolute", "fields"),
    [
        (101, 0, ["minCandidateNodesPercentage"]),
        (-1, -1, ["minCandidateNodesPercentage", "minCandidateNodesAbsolute"]),
        (0, 0, ["minCandidateNodesPercentage", "minCandidateNodesAbsolute"]),
        (0, 1, []),
    ],
)
def test_args_are_checked(percentage: int, absolute: int, fields: list[str]) -> None:
    args = DefaultPreemption.Args(
        min_candidate_nodes_percentage=percentage, min_candidate_nodes_absolute=absolute
    )
    assert [field for field, _ in args.problems()] == fields


class Refuses(PreFilterPlugin):
    """Rejects every pod before any node is looked at, in a way that preemption may help with."""

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Any) -> Status | None:
        return unschedulable("no")


def test_nodes_are_tried_for_a_pod_that_pre_filter_rejects_though_no_filter_was_asked() -> None:
    cluster = _cluster()
    cluster.add(_low("low"))
    decision = decide(cluster, _high(), plugins=[Refuses])
    assert decision.status is not None and decision.status.code is Code.UNSCHEDULABLE
    assert decision.message == "0/1 nodes are available: no."
    assert [victim.name for victim in decision.victims] == ["low"]
