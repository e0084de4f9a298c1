"""A plugin of the queue that misbehaves harms the pod it was asked about, and no other."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.framework import Code, Status
from stowplan.framework.contract import QueuedPod
from tests.unit.queue.rig import NODE_LABEL, Rig, pod


def test_a_gate_that_fails_is_closed() -> None:
    rig = Rig()
    rig.plugin("Gate").closed = None
    waiting = pod("p")
    rig.queue.add(waiting)
    assert rig.where(waiting) == "gated"


@pytest.mark.parametrize(
    ("answer", "where"), [(Status(Code.SUCCESS), "active"), (Status(Code.ERROR), "gated"), ("no", "gated")]
)
def test_only_a_success_opens_the_gate(answer: Any, where: str) -> None:
    rig = Rig()
    rig.plugin("Gate").pre_enqueue = lambda pod: answer
    waiting = pod("p")
    rig.queue.add(waiting)
    assert rig.where(waiting) == where


def test_pods_that_cannot_be_put_in_order_come_last() -> None:
    rig = Rig()
    sorter = rig.plugin("PrioritySort")
    in_order = sorter.sort_key

    def sort_key(queued: QueuedPod) -> Any:
        if queued.pod.name == "bad":
            raise KeyError("no such label")
        return in_order(queued)

    sorter.sort_key = sort_key
    for one in (pod("bad", priority=9), pod("low"), pod("high", priority=5)):
        rig.queue.add(one)
    popped = [rig.pop() for _ in range(3)]
    assert [queued.pod.name for queued in popped] == ["high", "low", "bad"]
    for queued in popped:
        rig.queue.add_unschedulable(queued, frozenset(("Picky",)))
    rig.move(NODE_LABEL)
    rig.pass_time(10)
    assert rig.queue.counts()["active"] == 3
