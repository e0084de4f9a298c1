"""A pod that fits nowhere is tried again when something happens that may help it, and only then.

Every scenario comes in three parts: why the pod `waits` has to wait; what does not help it; what does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from tests.e2e.stage import HOST, RESOURCE, ZONE, Stage, apart, eventually, near, selected_by
from tests.e2e.test_run import NODES, PODS

pytestmark = pytest.mark.control_plane

Scenario: TypeAlias = Callable[[Stage], Iterator[str]]


def a_node_is_added(stage: Stage) -> Iterator[str]:
    stage.node("small", cpu="1")
    stage.pod("waits", cpu="2")
    yield "0/1 nodes are available: 1 Insufficient cpu."
    stage.node("another-small", cpu="1")
    yield "too small as well"
    stage.node("large", cpu="4")
    yield "large"


def a_node_gets_a_label(stage: Stage) -> Iterator[str]:
    stage.node("one")
    stage.pod("waits", nodeSelector={"disk": "ssd"})
    yield "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    stage.change_node("one", metadata={"labels": {"disk": "hdd"}, "annotations": {"disk": "ssd"}})
    stage.grow_node("one", cpu="64")
    yield "not that label"
    stage.change_node("one", metadata={"labels": {"disk": "ssd"}})
    yield "one"


def a_taint_is_taken_off(stage: Stage) -> Iterator[str]:
    taint = {"key": "team", "value": "red", "effect": "NoSchedule"}
    stage.node("one", taints=[taint])
    stage.pod("waits")
    yield "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
    stage.change_node("one", spec={"taints": [taint | {"value": "blue"}]})
    stage.change_node("one", metadata={"labels": {"team": "none"}})
    yield "another taint is no better"
    stage.change_node("one", spec={"taints": None})
    yield "one"


def a_node_is_uncordoned(stage: Stage) -> Iterator[str]:
    stage.node("one", unschedulable=True)
    stage.pod("waits")
    yield "0/1 nodes are available: 1 node(s) were unschedulable."
    stage.change_node("one", metadata={"labels": {"checked": "yes"}})
    stage.grow_node("one", cpu="64")
    yield "still cordoned"
    stage.change_node("one", spec={"unschedulable": None})
    yield "one"


def a_node_grows(stage: Stage) -> Iterator[str]:
    stage.node("one", cpu="1")
    stage.pod("waits", cpu="4")
    yield "0/1 nodes are available: 1 Insufficient cpu."
    stage.grow_node("one", cpu="2")
    stage.grow_node("one", memory="64Gi")
    yield "not enough, and not of what it needs"
    stage.grow_node("one", cpu="4")
    yield "one"


def a_pod_is_deleted(stage: Stage) -> Iterator[str]:
    stage.node("one")
    stage.running_pod("large", "one", cpu="3")
    stage.pod("undecided", scheduler="somebody-else", cpu="3")
    stage.pod("waits", cpu="2")
    yield "0/1 nodes are available: 1 Insufficient cpu."
    stage.delete_pod("undecided")
    stage.label_pod("large", tier="back")
    yield "it took no room"
    stage.delete_pod("large")
    yield "one"


def a_pod_comes_to_its_end(stage: Stage) -> Iterator[str]:
    stage.node("one")
    stage.running_pod("job", "one", cpu="3")
    stage.pod("waits", cpu="2")
    yield "0/1 nodes are available: 1 Insufficient cpu."
    stage.api.patch(f"{PODS}/job/status", {"status": {"phase": "Running"}})
    yield "it goes on"
    stage.api.patch(f"{PODS}/job/status", {"status": {"phase": "Succeeded"}})
    yield "one"


def a_pod_asks_for_less(stage: Stage) -> Iterator[str]:
    stage.node("one")
    stage.running_pod("elastic", "one", requests={"cpu": "3", "memory": "1Gi"})
    stage.pod("waits", cpu="2")
    yield "0/1 nodes are available: 1 Insufficient cpu."

    def resize(**requests: str) -> None:
        change = {"spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]}}
        strategic = "application/strategic-merge-patch+json"
        stage.api.call("PATCH", f"{PODS}/elastic/resize", change, content_type=strategic)

    resize(memory="512Mi")
    yield "that is not what it needs"
    resize(cpu="1")
    yield "one"


def a_port_becomes_free(stage: Stage) -> Iterator[str]:
    def on(port: int) -> dict[str, Any]:
        return {"ports": [{"containerPort": 80, "hostPort": port}]}

    stage.node("one")
    stage.running_pod("web", "one", container=on(8080))
    stage.running_pod("other", "one", container=on(9090))
    stage.pod("waits", container=on(8080))
    yield "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
    stage.delete_pod("other")
    yield "another port"
    stage.delete_pod("web")
    yield "one"


def a_pod_it_wants_to_be_near_gets_its_label(stage: Stage) -> Iterator[str]:
    stage.node("one", labels={ZONE: "a"})
    stage.node("two", labels={ZONE: "b"})
    stage.running_pod("store", "two")
    stage.pod("waits", affinity=near(ZONE, app="store"))
    yield "0/2 nodes are available: 2 node(s) didn't match pod affinity rules."
    stage.label_pod("store", app="shop")
    yield "not that label"
    stage.label_pod("store", app="store")
    yield "two"


def a_pod_it_wants_to_be_near_is_bound(stage: Stage) -> Iterator[str]:
    stage.node("one", labels={ZONE: "a"})
    stage.pod("waits", affinity=near(ZONE, app="store"))
    yield "0/1 nodes are available: 1 node(s) didn't match pod affinity rules."
    stage.running_pod("shop", "one", labels={"app": "shop"})
    yield "another pod"
    stage.running_pod("store", "one", labels={"app": "store"})
    yield "one"


def a_pod_it_cannot_bear_goes(stage: Stage) -> Iterator[str]:
    stage.node("one")
    stage.running_pod("loud", "one", labels={"noise": "yes"})
    stage.running_pod("silent", "one")
    stage.pod("waits", affinity=apart(HOST, noise="yes"))
    yield "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules."
    stage.delete_pod("silent")
    yield "another pod"
    stage.delete_pod("loud")
    yield "one"


def a_domain_has_fewer_pods(stage: Stage) -> Iterator[str]:
    stage.node("one", labels={ZONE: "a"})
    stage.node("two", labels={ZONE: "b"}, cpu="1")
    stage.running_pod("counted", "one", labels={"app": "web"})
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    stage.pod(
        "waits",
        cpu="2",
        labels={"app": "web"},
        topologySpreadConstraints=[rule | selected_by(app="web")],
    )
    yield "1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints."
    stage.label_pod("counted", tier="front")
    stage.running_pod("not-counted", "one", labels={"app": "shop"})
    yield "the same number"
    stage.label_pod("counted", app="shop")
    yield "one"


def it_gets_a_toleration(stage: Stage) -> Iterator[str]:
    stage.node("one", taints=[{"key": "team", "effect": "NoSchedule"}])
    stage.pod("waits")
    yield "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
    stage.label_pod("waits", team="red")
    stage.change_pod("waits", metadata={"annotations": {"tolerates": "everything"}})
    yield "no toleration"
    # Tolerations can be added, never taken away: those of admission stay.
    mine = stage.get_pod("waits")["spec"].get("tolerations", [])
    stage.change_pod("waits", spec={"tolerations": [*mine, {"key": "team", "operator": "Exists"}]})
    yield "one"


def its_claim_of_devices_is_made(stage: Stage) -> Iterator[str]:
    stage.node("one")
    make_devices(stage, "one")
    stage.pod("waits", resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}])
    yield ""
    make_claim(stage, "other")
    yield "another claim"
    make_claim(stage, "mine")
    yield "one"


def devices_come(stage: Stage) -> Iterator[str]:
    stage.node("one")
    stage.node("two")
    make_class(stage)
    make_claim(stage, "mine")
    stage.pod("waits", resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}])
    yield "0/2 nodes are available: 2 cannot allocate all claims."
    stage.change_node("two", metadata={"annotations": {"gpu": "soon"}})
    make_claim(stage, "other")
    yield "no devices"
    make_slice(stage, "two")
    yield "two"


def the_class_of_its_devices_is_made(stage: Stage) -> Iterator[str]:
    stage.node("one")
    make_slice(stage, "one")
    make_claim(stage, "mine")
    stage.pod("waits", resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}])
    yield "device class gpu does not exist"
    stage.change_node("one", metadata={"annotations": {"class": "soon"}})
    yield "no class"
    make_class(stage)
    yield "one"


def devices_are_given_back(stage: Stage) -> Iterator[str]:
    stage.node("one")
    make_devices(stage, "one")
    make_claim(stage, "theirs")
    make_claim(stage, "mine")
    stage.pod("first", resourceClaims=[{"name": "gpu", "resourceClaimName": "theirs"}])
    assert stage.placed("first") == "one"
    stage.pod("waits", resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}])
    yield "0/1 nodes are available: 1 cannot allocate all claims."
    path = f"{RESOURCE}/namespaces/default/resourceclaims/theirs"
    stage.delete_pod("first")
    stage.api.patch(f"{path}/status", {"status": {"reservedFor": None}})
    yield "nobody uses it, but the claim still has it"
    stage.api.patch(f"{path}/status", {"status": {"allocation": None}})
    yield "one"


def make_class(stage: Stage) -> None:
    stage.make(f"{RESOURCE}/deviceclasses", "gpu", spec={})


def make_slice(stage: Stage, node: str, devices: int = 1) -> None:
    spec = {
        "driver": "gpu.example.com",
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{number}"} for number in range(devices)],
    }
    stage.make(f"{RESOURCE}/resourceslices", f"gpus-of-{node}", spec=spec)


def make_devices(stage: Stage, node: str) -> None:
    make_class(stage)
    make_slice(stage, node)


def make_claim(stage: Stage, name: str) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    stage.make(
        f"{RESOURCE}/namespaces/default/resourceclaims", name, spec={"devices": {"requests": [request]}}
    )


SCENARIOS: tuple[Scenario, ...] = (
    a_node_is_added,
    a_node_gets_a_label,
    a_taint_is_taken_off,
    a_node_is_uncordoned,
    a_node_grows,
    a_pod_is_deleted,
    a_pod_comes_to_its_end,
    a_pod_asks_for_less,
    a_port_becomes_free,
    a_pod_it_wants_to_be_near_gets_its_label,
    a_pod_it_wants_to_be_near_is_bound,
    a_pod_it_cannot_bear_goes,
    a_domain_has_fewer_pods,
    it_gets_a_toleration,
    its_claim_of_devices_is_made,
    devices_come,
    the_class_of_its_devices_is_made,
    devices_are_given_back,
)


def play(stage: Stage, scenario: Scenario) -> None:
    parts = scenario(stage)
    because = next(parts)
    if because:
        stage.refused("waits", because)
    with stage.nothing_is_retried():
        next(parts)
    node = next(parts)
    assert stage.placed("waits") == node


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_it_is_tried_again_when_it_may_help_and_only_then(stage: Stage, scenario: Scenario) -> None:
    play(stage, scenario)


def test_a_gated_pod_is_not_even_tried(stage: Stage) -> None:
    stage.node("one")
    before = stage.attempts()
    stage.pod("gated", schedulingGates=[{"name": "example.com/quota"}, {"name": "example.com/budget"}])
    condition = eventually(lambda: stage.condition("gated"))
    assert condition["reason"] == "SchedulingGated"
    eventually(lambda: stage.waiting("gated") == 1)
    stage.change_pod("gated", spec={"schedulingGates": [{"name": "example.com/budget"}]})
    stage.label_pod("gated", checked="yes")
    stage.settle()
    assert stage.waiting("gated") == 1
    assert stage.attempts() == before
    stage.change_pod("gated", spec={"schedulingGates": None})
    assert stage.placed("gated") == "one"
    assert stage.attempts() == before + 1


def test_what_happens_while_a_pod_is_decided_is_not_lost(stage: Stage) -> None:
    """Pods that come before the only node they fit: whichever is seen first, none waits for minutes."""
    for number in range(20):
        stage.pod(f"early-{number}", cpu="100m")
    stage.node("one")
    assert {stage.placed(f"early-{number}") for number in range(20)} == {"one"}


def test_what_is_said_of_a_pod_that_fits_nowhere(stage: Stage) -> None:
    stage.node("small", cpu="1")
    stage.node("tainted", taints=[{"key": "team", "effect": "NoExecute"}])
    stage.node("cordoned", unschedulable=True)
    stage.pod("large", cpu="3")
    message = stage.refused("large", "")
    preemption = "0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    assert message == (
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), "
        f"1 node(s) were unschedulable. no new claims to deallocate, preemption: {preemption}"
    )
    condition = stage.condition("large")
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    event = eventually(lambda: stage.events("large", "FailedScheduling"))[0]
    assert (event["type"], event["action"], event["note"]) == ("Warning", "Scheduling", message)
    assert event["reportingController"] == "stowplan"
    assert event["regarding"]["name"] == "large"

    stage.grow_node("small", cpu="2")  # no help
    described = stage.kubectl("describe", "pod", "large")
    assert "Warning  FailedScheduling" in described
    assert f"stowplan  {message}" in described
    assert "PodScheduled   False" in described

    stage.grow_node("small", cpu="8")
    assert stage.placed("large") == "small"
    eventually(lambda: stage.events("large", "Scheduled"))
    described = stage.kubectl("describe", "pod", "large")
    assert "Successfully assigned default/large to small" in described
    assert "PodScheduled   True" in described


def test_the_message_follows_what_changes(stage: Stage) -> None:
    stage.node("one", cpu="1", labels={"disk": "hdd"})
    stage.pod("picky", cpu="2", nodeSelector={"disk": "ssd"})
    stage.refused("picky", "1 node(s) didn't match Pod's node affinity/selector.")
    stage.change_node("one", metadata={"labels": {"disk": "ssd"}})
    stage.refused("picky", "1 Insufficient cpu.")
    stage.delete(f"{NODES}/one")
    stage.settle()
    stage.node("two", labels={"disk": "ssd"})
    assert stage.placed("picky") == "two"
