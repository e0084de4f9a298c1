"""The runner sees where a rejected pod is, and says so when that is not what is wanted."""

from __future__ import annotations

from typing import Any

import msgspec

from conformance.cases import Case, decode_case
from conformance.runner import run_case

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "1", "pods": "10"}},
}
BIGGER = {**NODE, "status": {"allocatable": {"cpu": "4", "pods": "10"}}}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default", "uid": "p"},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
}
REJECTED = {
    "unschedulablePlugins": ["NodeResourcesFit"],
    "message": "0/1 nodes are available: 1 Insufficient cpu.",
}


def case(pod: dict[str, Any], events: list[tuple[str, Any]], wanted: list[str], **rejection: Any) -> Case:
    return decode_case(
        msgspec.json.encode(
            {
                "id": "x",
                "objects": [NODE, pod],
                "pods": ["default/p"],
                "events": [{"op": op, "object": obj} for op, obj in events],
                "want": [{"pod": "default/p", "events": wanted, **rejection}],
            }
        )
    )


def test_a_case_agrees_when_the_pod_is_where_it_should_be() -> None:
    events = [("update", BIGGER), ("delete", NODE), ("update", NODE)]
    assert run_case(case(POD, events, ["backoff", "stays", "stays"], **REJECTED)).agrees


def test_a_gated_pod_becomes_active() -> None:
    gated = {**POD, "spec": {**POD["spec"], "schedulingGates": [{"name": "a"}]}}
    assert run_case(case(gated, [("update", POD), ("update", BIGGER)], ["active", "stays"])).agrees


def test_every_difference_is_named() -> None:
    events = [("update", BIGGER), ("delete", NODE)]
    outcome = run_case(case(POD, events, ["stays", "stays"], message="m", unschedulablePlugins=["X"]))
    assert outcome.differences == [
        "default/p: message: want 'm', got '0/1 nodes are available: 1 Insufficient cpu.'",
        "default/p: unschedulablePlugins: want X, got NodeResourcesFit",
        "default/p: event 0 (update Node n1), rejected by NodeResourcesFit: want stays, got backoff",
    ]


def test_a_case_with_too_few_answers_does_not_agree() -> None:
    assert not run_case(case(POD, [("update", BIGGER)], [], **REJECTED)).agrees
