"""The books notice what must not happen, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.soak.ledger import Ledger
from tests.soak.load import node


def pod(
    name: str, on: str = "", *, cpu: str = "500m", uid: str = "", phase: str = "Pending", **more: Any
) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "100Mi"}}}
    spec = {"containers": [container], **more}
    if on:
        spec["nodeName"] = on
    return {"metadata": {"uid": uid or name, "name": name}, "spec": spec, "status": {"phase": phase}}


def explained(manifest: dict[str, Any], message: str = "0/1 nodes are available: 1 Insufficient cpu.") -> Any:
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    return manifest | {"status": {"phase": "Pending", "conditions": [condition]}}


@pytest.fixture
def ledger() -> Ledger:
    made = Ledger()
    made.add_node(node(0))
    made.add_node(node(1))
    return made


def test_pods_that_are_placed_and_go_again_are_no_news(ledger: Ledger) -> None:
    for i in range(4):
        ledger.observe("ADDED", pod(f"p{i}"), 1.0)
        ledger.observe("MODIFIED", pod(f"p{i}", "node-0000"), 2.0)
    ledger.observe("DELETED", pod("p0", "node-0000"), 3.0)
    ledger.observe("ADDED", pod("p4", "node-0000"), 4.0)
    assert (ledger.violations, ledger.bindings, ledger.last_binding) == ([], 5, 4.0)
    assert len(ledger.placed()) == 4


def test_a_pod_that_changes_its_node(ledger: Ledger) -> None:
    ledger.observe("ADDED", pod("web", "node-0000"), 1.0)
    ledger.observe("MODIFIED", pod("web", "node-0001"), 2.0)
    assert ledger.violations == ["web was on node-0000 and is on node-0001 now"]


def test_a_pod_that_loses_its_node_while_the_watch_was_away(ledger: Ledger) -> None:
    ledger.observe("ADDED", pod("web", "node-0000"), 1.0)
    ledger.relisted([pod("web")], 2.0)
    assert ledger.violations == ["web was on node-0000 and is on no node now"]


def test_another_pod_of_the_same_name_may_be_elsewhere(ledger: Ledger) -> None:
    ledger.observe("ADDED", pod("web", "node-0000"), 1.0)
    ledger.relisted([pod("web", "node-0001", uid="another")], 2.0)
    assert not ledger.violations
    assert "web" in ledger.deleted


def test_a_node_that_is_overfilled_is_noticed_once(ledger: Ledger) -> None:
    for i in range(6):
        ledger.observe("ADDED", pod(f"p{i}", "node-0000"), 1.0)
    assert len(ledger.violations) == 1
    assert ledger.violations[0].startswith("p4 overfills node-0000")


def test_finished_pods_take_no_room(ledger: Ledger) -> None:
    for i in range(6):
        ledger.observe("ADDED", pod(f"p{i}", "node-0000"), 1.0)
        ledger.observe("MODIFIED", pod(f"p{i}", "node-0000", phase="Succeeded"), 2.0)
    assert not ledger.violations


def test_a_relist_takes_away_what_is_gone(ledger: Ledger) -> None:
    for i in range(4):
        ledger.observe("ADDED", pod(f"p{i}", "node-0000"), 1.0)
    ledger.relisted([pod("p0", "node-0000")], 2.0)
    ledger.observe("ADDED", pod("p9", "node-0000", cpu="1500m"), 3.0)
    assert (ledger.violations, ledger.relists) == ([], 1)


def test_a_node_that_does_not_exist(ledger: Ledger) -> None:
    ledger.observe("ADDED", pod("web", "nowhere"), 1.0)
    assert ledger.violations == ["web is on nowhere, which does not exist"]


def test_a_binding_that_is_accepted_twice(ledger: Ledger) -> None:
    ledger.accepted("web", "web", "node-0000")
    ledger.accepted("web", "web", "node-0000")
    assert ledger.violations == ["web was bound twice: to node-0000 and to node-0000"]


def test_a_pod_that_is_elsewhere_than_was_accepted(ledger: Ledger) -> None:
    ledger.accepted("web", "web", "node-0000")
    ledger.observe("ADDED", pod("web", "node-0001"), 1.0)
    assert ledger.violations == ["web is on node-0001, but was accepted for node-0000"]


def test_pods_that_are_pending_though_there_is_room(ledger: Ledger) -> None:
    ledger.observe("ADDED", pod("lost"), 1.0)
    ledger.observe("ADDED", pod("elsewhere", nodeSelector={"kubernetes.io/hostname": "nowhere"}), 1.0)
    ledger.observe("ADDED", pod("big", cpu="4"), 1.0)
    assert [each.name for each in ledger.waiting_for_nothing()] == ["lost"]


def test_in_the_end_a_pending_pod_must_say_a_true_reason(ledger: Ledger) -> None:
    ledger.observe("ADDED", explained(pod("true", cpu="4")), 1.0)
    ledger.observe("ADDED", explained(pod("lost")), 1.0)
    ledger.observe("ADDED", pod("silent", cpu="4"), 1.0)
    said = list(ledger.final_violations())
    assert said[0].startswith("lost is pending although node-0000 has room")
    assert said[1].startswith("silent is pending without a condition")
    assert len(said) == 2


def test_a_full_node_is_no_room(ledger: Ledger) -> None:
    for number in (0, 1):
        ledger.observe("ADDED", pod(f"full{number}", f"node-000{number}", cpu="1800m"), 1.0)
    ledger.observe("ADDED", pod("waiting"), 1.0)
    assert not ledger.waiting_for_nothing()
