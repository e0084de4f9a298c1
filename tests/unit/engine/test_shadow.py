"""A shadow decides what another scheduler decided, from the state that one had, and tells each difference."""

from __future__ import annotations

import msgspec
import pytest

from stowplan.cluster import Cluster
from stowplan.engine import Scheduler
from stowplan.engine.feed import Feed
from stowplan.engine.shadow import PATIENCE, Shadow
from stowplan.engine.trace import Trace
from stowplan.objects import Pod
from stowplan.queue import SchedulingQueue
from stowplan.testing.builders import PodBuilder, make_node, make_pod


class Clock:
    """Time as the test sets it."""

    now = 1000.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def shadow(clock: Clock) -> Shadow:
    cluster = Cluster()
    for i in range(2):
        cluster.add(make_node(f"n{i}").capacity(cpu=4, memory="8Gi", pods=10).build())
    core = Scheduler(cluster, now=lambda: clock.now)
    queue = SchedulingQueue(core.profiles, cluster.nominations, lambda: clock.now)
    return Shadow(core, queue, Feed(cluster, queue, core.profiles))


def pending(name: str, cpu: str = "1") -> PodBuilder:
    return make_pod(name).requests(cpu=cpu).metadata(resourceVersion="1")


def bound(name: str, node: str, cpu: str = "1") -> Pod:
    return pending(name, cpu).metadata(resourceVersion="2").on_node(node).build()


def told(name: str, message: str, cpu: str) -> Pod:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return pending(name, cpu).metadata(resourceVersion="2").status(conditions=[condition]).build()


def test_the_same_decisions_are_no_difference(shadow: Shadow) -> None:
    shadow.observe(None, pending("a").build())
    shadow.observe(pending("a").build(), bound("a", "n1"))
    shadow.observe(None, pending("b").build())
    shadow.observe(pending("b").build(), bound("b", "n0"))
    assert (shadow.tally.placed, shadow.tally.differences) == (2, [])


def test_another_node_than_the_best_is_a_difference_with_its_trace(shadow: Shadow) -> None:
    shadow.observe(None, pending("a").build())
    shadow.observe(pending("a").build(), bound("a", "n1"))
    shadow.observe(None, pending("b").build())
    shadow.observe(pending("b").build(), bound("b", "n1"))
    (difference,) = shadow.tally.differences
    assert (difference.pod, difference.theirs, difference.ours) == ("default/b", "n1", ("n0",))
    assert difference.trace.totals["n0"] > difference.trace.totals["n1"]
    assert str(difference) == "default/b: they say n1, we say n0"


def test_bindings_that_arrive_in_another_order_are_judged_in_the_order_of_decisions(shadow: Shadow) -> None:
    """After a on n0, b must go to n1; seen the other way round both would look fine or both wrong."""
    for name, cpu in (("a", "3"), ("b", "2")):
        shadow.observe(None, pending(name, cpu).build())
    shadow.observe(pending("b", "2").build(), bound("b", "n1", "2"))
    assert shadow.tally.placed == 0
    shadow.observe(pending("a", "3").build(), bound("a", "n0", "3"))
    assert (shadow.tally.placed, shadow.tally.differences) == (2, [])


def test_what_happens_to_a_bound_pod_before_its_turn_does_not_count_it(shadow: Shadow) -> None:
    """Counted on its node already, it would seem to have no room there when its turn comes."""
    for name in ("a", "b"):
        shadow.observe(None, pending(name, "3").build())
    there = bound("b", "n1", "3")
    shadow.observe(pending("b", "3").build(), there)
    running = msgspec.structs.replace(
        there, resource_version="3", status=msgspec.structs.replace(there.status, phase="Running")
    )
    shadow.observe(there, running)
    cluster = shadow._core.cluster
    assert not cluster.pods
    shadow.observe(pending("a", "3").build(), bound("a", "n0", "3"))
    assert (shadow.tally.placed, shadow.tally.differences) == (2, [])
    assert cluster.pods[there.uid] is running


def test_a_decision_that_cannot_be_explained_does_not_end_the_shadow(
    shadow: Shadow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explain(pod: Pod) -> Trace:
        raise RuntimeError("lost for words")

    monkeypatch.setattr(shadow._core, "explain", explain)
    shadow.observe(None, pending("a").build())
    shadow.observe(pending("a").build(), bound("a", "n1"))
    assert shadow._core.cluster.pods[bound("a", "n1").uid].node_name == "n1"
    (difference,) = shadow.tally.differences
    assert str(difference) == "default/a: they say n1, we say RuntimeError: lost for words"


def test_a_rejection_is_compared_by_its_words(shadow: Shadow) -> None:
    big = pending("big", "9").build()
    shadow.observe(None, big)
    shadow.observe(big, told("big", "0/2 nodes are available: 2 Insufficient cpu. preemption: nothing.", "9"))
    assert (shadow.tally.rejected, shadow.tally.differences) == (1, [])
    shadow.observe(None, pending("big2", "9").build())
    shadow.observe(
        pending("big2", "9").build(), told("big2", "0/2 nodes are available: 2 Too many pods.", "9")
    )
    assert [difference.pod for difference in shadow.tally.differences] == ["default/big2"]


def test_a_pod_that_the_other_scheduler_passes_over_does_not_hold_up_the_others(
    shadow: Shadow, clock: Clock
) -> None:
    shadow.observe(None, pending("ignored").build())
    shadow.observe(None, pending("b").build())
    shadow.observe(pending("b").build(), bound("b", "n0"))
    assert shadow.tally.placed == 0
    clock.now += PATIENCE + 1
    shadow.advance()
    assert shadow.tally.placed == 1


def test_a_pod_deleted_while_its_turn_is_awaited_is_forgotten(shadow: Shadow) -> None:
    pod = pending("gone").build()
    shadow.observe(None, pod)
    shadow.observe(pod, None)
    shadow.observe(None, pending("b").build())
    shadow.observe(pending("b").build(), bound("b", "n0"))
    assert shadow.tally.placed == 1


def test_a_pod_that_goes_where_it_was_nominated_to_is_no_difference(shadow: Shadow) -> None:
    shadow.observe(None, pending("a").build())
    shadow.observe(pending("a").build(), bound("a", "n0"))
    promised = pending("b").status(nominatedNodeName="n0").build()
    shadow.observe(None, promised)
    shadow.observe(promised, bound("b", "n0"))
    assert (shadow.tally.placed, shadow.tally.differences) == (2, [])
