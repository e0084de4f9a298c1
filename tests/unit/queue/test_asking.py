"""A plugin of the queue that misbehaves harms the pod it was asked about, and no other."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from stowplan.framework import Code, Status
from stowplan.framework.contract import QueuedPod
from tests.unit.queue.rig import CLASS_ADD, NODE_LABEL, Rig, pod


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


@pytest.mark.parametrize("helps", [lambda *_: np.ones(2), lambda *_: asyncio.run(_cancelled())])
def test_a_hint_that_fails_counts_as_yes(helps: Any) -> None:
    rig = Rig()
    rig.plugin("Picky").helps = helps
    rig.queue.add(pod("p"))
    rig.queue.add_unschedulable(rig.pop(), frozenset(("Picky",)))
    rig.move(NODE_LABEL)
    assert rig.where(pod("p")) == "backoff"


async def _cancelled() -> bool:
    raise asyncio.CancelledError


def test_a_gate_that_does_not_know_how_pods_are_called_lets_nobody_in() -> None:
    rig = Rig()
    gate = rig.plugin("Gate")
    gate.closed = {"p"}
    gate.let_in = lambda: [["default/p"], None]
    rig.queue.add(pod("p"))
    rig.move(CLASS_ADD)
    assert rig.where(pod("p")) == "gated"


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


@pytest.mark.parametrize(
    "keys",
    [(None, 1, "a"), (1, None, {}), (np.arange(2), np.arange(2), np.arange(2)), ((1, None), (2, 3), (1, 5))],
)
def test_keys_that_cannot_be_compared_lose_no_pod(keys: tuple[Any, ...]) -> None:
    rig = Rig()
    key_of = {f"p{number}": keys[number % 3] for number in range(12)}
    rig.plugin("PrioritySort").sort_key = lambda queued: key_of[queued.pod.name]
    for name in key_of:
        rig.queue.add(pod(name))
    rig.queue.delete(pod("p4"))
    rig.queue.update(pod("p5"), pod("p5", priority=1))
    popped = [rig.pop() for _ in range(11)]
    assert {queued.pod.name for queued in popped} == key_of.keys() - {"p4"}
    for queued in popped:
        rig.queue.add_unschedulable(queued, frozenset(("Picky",)))
    rig.move(NODE_LABEL)
    rig.pass_time(10)
    assert rig.queue.counts()["active"] == 11
