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


class Unordered:
    """A key that is like no other, not even itself."""


@pytest.mark.parametrize("odd", ["x", None, (1, "x"), (1, 2, 3), Unordered(), (1, Unordered()), 1j])
def test_keys_that_cannot_be_compared_break_no_queue(odd: object) -> None:
    rig = Rig()
    rig.plugin("PrioritySort").sort_key = lambda queued: odd if queued.pod.name == "odd" else (2, 5)
    for name in ("first", "odd", "second", "third"):
        rig.queue.add(pod(name))
    assert [rig.pop().pod.name for _ in range(4)] == ["first", "second", "third", "odd"]


def test_any_number_of_kinds_of_keys_will_do() -> None:
    rig = Rig()
    rig.plugin("PrioritySort").sort_key = lambda queued: (0,) * int(queued.pod.name)
    for number in range(1, 40):
        rig.queue.add(pod(str(number)))
    assert [rig.pop().pod.name for _ in range(39)] == [str(number) for number in range(1, 40)]
