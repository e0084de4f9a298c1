"""Updates are split into what plugins register for."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.objects import Node, Pod
from stowplan.queue.updates import node_update_events, pod_update_events
from stowplan.testing.builders import make_node, make_pod


def labels_of(old: Pod | None, new: Pod) -> list[str]:
    return [event.label for event in pod_update_events(old, new)]


def base() -> Pod:
    return make_pod("p").requests(cpu="200m").build()


@pytest.mark.parametrize(
    ("new", "labels"),
    [
        (make_pod("p").requests(cpu="200m").labels(a="b"), ["UnschedulablePodUpdatePodLabel"]),
        (make_pod("p").requests(cpu="100m"), ["UnschedulablePodUpdatePodScaleDown"]),
        (make_pod("p"), ["UnschedulablePodUpdatePodScaleDown"]),
        (make_pod("p").requests(cpu="300m"), ["UnschedulablePodUpdate"]),
        (make_pod("p").requests(cpu="200m").status(phase="Pending"), ["UnschedulablePodUpdate"]),
        (
            make_pod("p").requests(cpu="200m").spec(tolerations=[{"operator": "Exists"}]),
            ["UnschedulablePodUpdatePodToleration"],
        ),
        (
            make_pod("p")
            .requests(cpu="200m")
            .status(resourceClaimStatuses=[{"name": "a", "resourceClaimName": "b"}]),
            ["UnschedulablePodUpdatePodGeneratedResourceClaim"],
        ),
        (
            make_pod("p").requests(cpu="100m").labels(a="b"),
            ["UnschedulablePodUpdatePodLabel", "UnschedulablePodUpdatePodScaleDown"],
        ),
    ],
)
def test_a_pod_s_update_says_what_changed(new: Any, labels: list[str]) -> None:
    assert labels_of(base(), new.build()) == labels


def test_an_update_of_a_placed_pod_is_called_so() -> None:
    assert labels_of(base(), base().placed_on("n1")) == ["AssignedPodUpdate"]


def test_without_the_old_pod_it_is_just_an_update() -> None:
    assert labels_of(None, base()) == ["UnschedulablePodUpdate"]


def test_only_the_last_gate_counts() -> None:
    two, one, none = (
        make_pod("p").spec(schedulingGates=[{"name": name} for name in names]).build()
        for names in ("ab", "a", "")
    )
    assert labels_of(two, one) == ["UnschedulablePodUpdate"]
    assert labels_of(one, none) == ["UnschedulablePodUpdatePodSchedulingGatesEliminated"]


def test_a_resize_that_took_effect_is_a_scale_down() -> None:
    def running(cpu: str) -> Pod:
        status = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
        built = make_pod("p").requests(cpu="100m")
        name = built.manifest["spec"]["containers"][0]["name"]
        return built.status(containerStatuses=[{**status, "name": name}]).build().placed_on("n1")

    assert labels_of(running("300m"), running("100m")) == ["AssignedPodUpdatePodScaleDown"]


def node(**fields: Any) -> Node:
    builder = make_node("n1").capacity(cpu="4", pods=10)
    for part, content in fields.items():
        builder.manifest.setdefault(part, {}).update(content)
    return builder.build()


@pytest.mark.parametrize(
    ("old", "new", "labels"),
    [
        ({}, {}, []),
        ({"spec": {"unschedulable": True}}, {}, ["NodeUpdateNodeTaint"]),
        ({}, {"spec": {"unschedulable": True}}, []),
        ({}, {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}, ["NodeUpdateNodeTaint"]),
        ({}, {"metadata": {"labels": {"a": "b"}}}, ["NodeUpdateNodeLabel"]),
        ({}, {"metadata": {"annotations": {"a": "b"}}}, ["NodeUpdateNodeAnnotation"]),
        ({}, {"status": {"allocatable": {"cpu": "5"}}}, ["NodeUpdateNodeAllocatable"]),
        (
            {"status": {"allocatable": {"cpu": "4"}}},
            {"status": {"allocatable": {"cpu": "4000m"}}},
            [],
        ),
        ({}, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, ["NodeUpdateNodeCondition"]),
        (
            {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "a"}]}},
            {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "b"}]}},
            [],
        ),
        ({}, {"status": {"declaredFeatures": ["x"]}}, ["NodeUpdateNodeDeclaredFeature"]),
    ],
)
def test_a_node_s_update_says_what_changed(old: Any, new: Any, labels: list[str]) -> None:
    assert [event.label for event in node_update_events(node(**old), node(**new))] == labels
