"""Plugins that keep count of whom they keep out: fewer questions, the same answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.framework import Status
from stowplan.objects import Pod
from tests.unit.queue.rig import CLASS_ADD, NODE_LABEL, Gate, Picky, Rig, pod

NAMES = ("a", "b", "c")


class CountingGate(Gate):
    """The same gate, which knows whom it would let in by now."""

    name = "Gate"

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.refused: set[str] = set()

    def pre_enqueue(self, pod: Pod) -> Status | None:
        status = super().pre_enqueue(pod)
        if status is not None:
            self.refused.add(pod.name)
        return status

    def let_in(self) -> Iterable[str]:
        opened = self.refused - self.closed
        self.refused -= opened
        return [f"default/{name}" for name in opened]


def kept_out(gate: type[Gate], count: int) -> Rig:
    rig = Rig(Picky, gate)
    rig.plugin("Gate").closed = {f"p{number}" for number in range(count)}
    for number in range(count):
        rig.queue.add(pod(f"p{number}"))
    rig.move(CLASS_ADD)
    return rig


def test_only_pods_that_are_let_in_are_asked_about() -> None:
    rig = kept_out(CountingGate, 100)
    gate = rig.plugin("Gate")
    gate.asked = 0
    for number in range(100):
        gate.closed.discard(f"p{number}")
        rig.move(CLASS_ADD)
    assert rig.queue.counts() == {"active": 100, "backoff": 0, "unschedulable": 0, "gated": 0}
    assert gate.asked == 100


def test_a_change_of_the_pod_does_not_keep_it_out_again() -> None:
    rig = kept_out(CountingGate, 1)
    first = rig.queue.get("default/p0")
    assert first is not None
    gate = rig.plugin("Gate")
    gate.closed.clear()
    rig.queue._unschedulable.let_in(gate.let_in())
    rig.queue.update(first.pod, pod("p0", priority=3))
    rig.move(CLASS_ADD)
    assert rig.where(pod("p0")) == "active"


def test_a_plugin_that_cannot_say_whom_it_lets_in_is_asked_about_each(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig = kept_out(CountingGate, 3)
    gate = rig.plugin("Gate")

    def fails() -> Iterable[str]:
        raise KeyError("p")

    monkeypatch.setattr(gate, "let_in", fails)
    gate.closed = {"p1"}
    rig.move(CLASS_ADD)
    assert rig.queue.counts()["active"] == 2
    assert "Gate failed to say whom it lets in" in caplog.text


STEPS = st.one_of(
    st.tuples(st.just("close"), st.frozensets(st.sampled_from(NAMES))),
    st.tuples(st.just("event"), st.sampled_from((CLASS_ADD, NODE_LABEL))),
    st.tuples(st.just("come"), st.sampled_from(NAMES)),
    st.tuples(st.just("change"), st.sampled_from(NAMES)),
    st.tuples(st.just("go"), st.sampled_from(NAMES)),
    st.tuples(st.just("reject"), st.frozensets(st.sampled_from(("Picky", "Gate")), min_size=1)),
    st.tuples(st.just("wait"), st.integers(1, 400)),
)


def take(rig: Rig, step: str, what: Any) -> None:
    match step:
        case "close":
            rig.plugin("Gate").closed = set(what)
        case "event":
            rig.move(what)
        case "come":
            rig.queue.add(pod(what))
        case "change":
            known = rig.queue.get(f"default/{what}")
            if known is not None:
                rig.queue.update(known.pod, pod(what, priority=known.pod.spec.priority + 1))
        case "go":
            rig.queue.delete(pod(what))
        case "reject":
            queued = rig.queue.pop()
            if queued is not None:
                rig.queue.add_unschedulable(queued, what)
        case "wait":
            rig.pass_time(what)


@settings(max_examples=300)
@given(st.lists(STEPS, max_size=40))
def test_pods_are_where_they_would_be_if_all_had_been_asked_about(steps: list[tuple[str, Any]]) -> None:
    asking, counting = Rig(Picky, Gate), Rig(Picky, CountingGate)
    for step in steps:
        for rig in (asking, counting):
            take(rig, *step)
        assert [counting.where(pod(name)) for name in NAMES] == [asking.where(pod(name)) for name in NAMES]
