"""Pods that make room for themselves, against a real API server. The tests play the kubelet: a victim that
was asked to end is gone when the test says so."""

from __future__ import annotations

import pytest

from tests.e2e.stage import BUDGETS, HOST, PRIORITIES, Stage, apart, eventually
from tests.e2e.test_run import PODS

pytestmark = pytest.mark.control_plane


@pytest.fixture
def cluster(stage: Stage) -> Stage:
    """The stage with the priorities low, middle and high."""
    for value, name in ((-10, "low"), (100, "middle"), (1000, "high")):
        stage.make(PRIORITIES, name, value=value)
    stage.make(PRIORITIES, "high-but-patient", value=1000, preemptionPolicy="Never")
    return stage


def is_ending(stage: Stage, name: str) -> bool:
    return "deletionTimestamp" in stage.get_pod(name)["metadata"]


def promised(stage: Stage, name: str) -> str:
    found: str = stage.get_pod(name)["status"].get("nominatedNodeName", "")
    return found


def place(stage: Stage, name: str, cpu: str, priority: str, **more: object) -> str:
    stage.pod(name, cpu=cpu, priorityClassName=priority, **more)  # type: ignore[arg-type]
    return stage.placed(name)


def test_the_less_important_pod_goes(cluster: Stage) -> None:
    cluster.node("one", cpu="4")
    place(cluster, "kept", "1", "middle")
    place(cluster, "victim", "3", "low")
    cluster.pod("urgent", cpu="3", priorityClassName="high")

    eventually(lambda: is_ending(cluster, "victim"))
    assert not is_ending(cluster, "kept")
    condition = cluster.condition("victim", "DisruptionTarget")
    assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
    assert condition["message"] == "stowplan: preempting to accommodate a higher priority pod"
    event = eventually(lambda: cluster.events("victim", "Preempted"))[0]
    uid = cluster.get_pod("urgent")["metadata"]["uid"]
    assert event["note"] == f"Preempted by pod {uid} on node one"
    assert (event["type"], event["action"]) == ("Normal", "Preempting")
    assert event["related"]["name"] == "urgent"
    assert eventually(lambda: promised(cluster, "urgent")) == "one"
    cluster.refused("urgent", "0/1 nodes are available: 1 Insufficient cpu.")

    with cluster.nothing_is_retried():
        cluster.label_pod("victim", state="ending")
    cluster.delete_pod("victim")
    assert cluster.placed("urgent") == "one"
    assert promised(cluster, "urgent") in ("", "one")


def test_a_disruption_budget_is_respected(cluster: Stage) -> None:
    """The more important victim goes, for the less important one is protected."""
    cluster.node("one", cpu="2")
    cluster.node("two", cpu="2")
    on_one = {"nodeSelector": {HOST: "one"}, "labels": {"app": "store"}}
    on_two = {"nodeSelector": {HOST: "two"}, "labels": {"app": "web"}}
    place(cluster, "protected", "2", "low", **on_one)
    place(cluster, "unprotected", "2", "middle", **on_two)
    selector = {"matchLabels": {"app": "store"}}
    cluster.make(BUDGETS, "store", spec={"minAvailable": 1, "selector": selector})
    # As its controller would write it.
    status = {
        "disruptionsAllowed": 0,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
        "observedGeneration": 1,
    }
    cluster.api.patch(f"{BUDGETS}/store/status", {"status": status})
    cluster.settle()
    cluster.pod("urgent", cpu="2", priorityClassName="high")
    eventually(lambda: is_ending(cluster, "unprotected"))
    assert not is_ending(cluster, "protected")
    cluster.delete_pod("unprotected")
    assert cluster.placed("urgent") == "two"


def test_a_budget_is_broken_when_nothing_else_helps(cluster: Stage) -> None:
    cluster.node("one", cpu="2")
    place(cluster, "protected", "2", "low", labels={"app": "store"})
    selector = {"matchLabels": {"app": "store"}}
    cluster.make(BUDGETS, "store", spec={"minAvailable": 1, "selector": selector})
    cluster.settle()
    cluster.pod("urgent", cpu="2", priorityClassName="high")
    eventually(lambda: is_ending(cluster, "protected"))
    cluster.delete_pod("protected")
    assert cluster.placed("urgent") == "one"


def test_who_is_told_never_to_preempt_waits(cluster: Stage) -> None:
    cluster.node("one", cpu="2")
    place(cluster, "tenant", "2", "low")
    cluster.pod("patient", cpu="2", priorityClassName="high-but-patient")
    message = cluster.refused("patient", "Insufficient cpu")
    assert message.endswith("not eligible due to preemptionPolicy=Never.")
    cluster.settle()
    assert not is_ending(cluster, "tenant")
    cluster.delete_pod("tenant")
    assert cluster.placed("patient") == "one"


def test_no_pod_goes_for_an_equal(cluster: Stage) -> None:
    cluster.node("one", cpu="2")
    place(cluster, "tenant", "2", "middle")
    cluster.pod("equal", cpu="2", priorityClassName="middle")
    message = cluster.refused("equal", "Insufficient cpu")
    assert message.endswith("1 No preemption victims found for incoming pod.")
    assert not is_ending(cluster, "tenant")


def test_promised_room_is_kept_from_the_less_important(cluster: Stage) -> None:
    cluster.node("one", cpu="4")
    for number in range(2):
        place(cluster, f"victim-{number}", "2", "low")
    cluster.pod("urgent", cpu="4", priorityClassName="high")
    for number in range(2):
        eventually(lambda number=number: is_ending(cluster, f"victim-{number}"))  # type: ignore[misc]
    eventually(lambda: promised(cluster, "urgent"))
    cluster.delete_pod("victim-0")
    cluster.pod("quick", cpu="1", priorityClassName="middle")
    cluster.refused("quick", "1 Insufficient cpu.")
    cluster.delete_pod("victim-1")
    assert cluster.placed("urgent") == "one"
    cluster.settle()
    assert cluster.node_of("quick") == ""


def test_a_promise_ends_with_the_pod_that_had_it(cluster: Stage) -> None:
    cluster.node("one", cpu="4")
    place(cluster, "victim", "4", "low")
    cluster.pod("urgent", cpu="4", priorityClassName="high")
    eventually(lambda: promised(cluster, "urgent"))
    eventually(lambda: is_ending(cluster, "victim"))
    cluster.pod("next", cpu="4", priorityClassName="middle")
    cluster.refused("next", "1 Insufficient cpu.")
    cluster.delete_pod("victim")
    assert cluster.placed("urgent") == "one"
    cluster.delete_pod("urgent")
    assert cluster.placed("next") == "one"


def test_the_preemptor_is_deleted_while_its_victim_ends(cluster: Stage) -> None:
    cluster.node("one", cpu="4")
    place(cluster, "victim", "4", "low")
    cluster.pod("urgent", cpu="4", priorityClassName="high")
    eventually(lambda: promised(cluster, "urgent"))
    eventually(lambda: is_ending(cluster, "victim"))
    cluster.pod("next", cpu="4", priorityClassName="middle")
    cluster.refused("next", "1 Insufficient cpu.")
    cluster.delete_pod("urgent")
    cluster.delete_pod("victim")
    assert cluster.placed("next") == "one"


def test_a_more_important_pod_takes_over_the_promise(cluster: Stage) -> None:
    cluster.node("one", cpu="4")
    place(cluster, "victim", "4", "low")
    cluster.pod("first", cpu="4", priorityClassName="middle")
    eventually(lambda: promised(cluster, "first"))
    eventually(lambda: is_ending(cluster, "victim"))
    cluster.pod("urgent", cpu="4", priorityClassName="high")
    cluster.refused("urgent", "1 Insufficient cpu.")
    cluster.delete_pod("victim")
    assert cluster.placed("urgent") == "one"
    cluster.refused("first", "1 Insufficient cpu.")
    eventually(lambda: not promised(cluster, "first"))


def test_who_keeps_it_away_goes(cluster: Stage) -> None:
    """Room is not all that can be made: a pod that does not bear it goes as well."""
    cluster.node("one")
    place(cluster, "recluse", "1", "low", affinity=apart(HOST, noise="yes"))
    cluster.pod("urgent", priorityClassName="high", labels={"noise": "yes"})
    eventually(lambda: is_ending(cluster, "recluse"))
    cluster.delete_pod("recluse")
    assert cluster.placed("urgent") == "one"


def test_many_make_room_at_once(cluster: Stage) -> None:
    """Each preemptor takes the node of another victim, and none waits for another."""
    for number in range(6):
        cluster.node(f"n{number}", cpu="2")
    for number in range(6):
        cluster.pod(f"low-{number}", cpu="2", priorityClassName="low")
    assert {cluster.placed(f"low-{n}") for n in range(6)} == {f"n{n}" for n in range(6)}
    for number in range(6):
        cluster.pod(f"high-{number}", cpu="2", priorityClassName="high")
    for number in range(6):
        eventually(lambda number=number: is_ending(cluster, f"low-{number}"))  # type: ignore[misc]
        cluster.delete(f"{PODS}/low-{number}")
    assert {cluster.placed(f"high-{n}") for n in range(6)} == {f"n{n}" for n in range(6)}
