"""Where a pod is, and when it comes back."""

from __future__ import annotations

import msgspec
import pytest

from stowplan.framework.events import (
    ASSIGNED_POD_DELETE,
    FORCE_ACTIVATE,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    Resource,
    cluster_event,
)
from stowplan.objects import Pod, intern_labels
from stowplan.plugins import IN_TREE
from stowplan.plugins.scheduling_gates import SchedulingGates
from stowplan.testing.builders import make_pod
from tests.unit.queue.rig import CLASS_ADD, NODE_LABEL, NODE_TAINT, Gate, Picky, Rig, Shapely, pod

# ---------------------------------------------------------------- order


def test_the_most_important_pod_is_first_and_among_equals_the_one_that_waits_longest() -> None:
    rig = Rig()
    rig.queue.add(pod("early"))
    rig.time += 1
    rig.queue.add(pod("late"))
    rig.queue.add(pod("important", priority=5))
    assert [rig.pop().pod.name for _ in range(3)] == ["important", "early", "late"]
    assert rig.queue.pop() is None


def test_pods_that_came_together_leave_in_the_order_in_which_they_came() -> None:
    rig = Rig()
    for number in range(50):
        rig.queue.add(pod(f"p{number}"))
    assert [rig.pop().pod.name for _ in range(50)] == [f"p{number}" for number in range(50)]


def test_a_rejected_pod_goes_behind_its_equals() -> None:
    rig = Rig()
    rig.reject(pod("rejected"), "Picky")
    rig.time += 1
    rig.queue.add(pod("waiting"))
    rig.time += 20
    rig.move(NODE_LABEL)
    assert rig.pop().pod.name == "rejected"
    again = rig.queue
    rig.time += 1
    rig.queue.add(pod("new"))
    assert [rig.pop().pod.name for _ in range(2)] == ["waiting", "new"]
    assert again.pop() is None


def test_attempts_are_counted_and_the_first_is_remembered() -> None:
    rig = Rig()
    queued = rig.reject(pod("p"))
    assert (queued.attempts, queued.initial_attempt) == (1, 1000.0)
    rig.pass_time(5)
    assert rig.pop() is queued
    assert (queued.attempts, queued.initial_attempt) == (2, 1000.0)


def test_a_pod_that_is_in_flight_is_not_handed_out_again() -> None:
    rig = Rig()
    rig.queue.add(pod("p"))
    queued = rig.pop()
    rig.queue.add(pod("p"))
    assert rig.queue.pop() is None
    rig.queue.add_unschedulable(queued, frozenset(("Picky",)))
    assert rig.where(queued.pod) == "unschedulable"


# ---------------------------------------------------------------- backoff


def test_after_an_error_a_pod_waits_and_is_not_tried_early() -> None:
    rig = Rig()
    queued = rig.reject(pod("p"))
    assert rig.where(queued.pod) == "backoff"
    assert rig.queue.pop() is None
    rig.pass_time(1.9)
    assert rig.queue.pop() is None, "within the second in which its time ends it still waits"
    rig.pass_time(0.1)
    assert rig.pop() is queued


def test_errors_in_a_row_double_the_wait_and_a_rejection_ends_the_row() -> None:
    rig = Rig()
    queued = rig.reject(pod("p"))
    waits = []
    for _ in range(6):
        started = rig.time
        while (again := rig.queue.pop()) is None:
            rig.pass_time(1)
        waits.append(rig.time - started)
        rig.queue.add_unschedulable(again, frozenset())
    assert waits == [2, 3, 5, 9, 11, 11]
    rig.pass_time(30)
    rig.queue.add_unschedulable(rig.pop(), frozenset(("Picky",)))
    assert (queued.consecutive_errors, queued.unschedulable_count) == (0, 1)


def test_a_pod_that_backs_off_is_taken_early_when_nothing_else_is_to_do() -> None:
    rig = Rig()
    queued = rig.reject(pod("p"), "Picky")
    rig.move(NODE_LABEL)
    assert rig.where(queued.pod) == "backoff"
    assert rig.pop() is queued
    assert rig.arrivals[-1] == ("active", "PopFromBackoffQ")


def test_an_active_pod_is_taken_before_one_that_backs_off() -> None:
    rig = Rig()
    rig.reject(pod("backs-off", priority=9), "Picky")
    rig.move(NODE_LABEL)
    rig.queue.add(pod("ready"))
    assert [rig.pop().pod.name for _ in range(2)] == ["ready", "backs-off"]


def test_pods_whose_wait_ends_in_the_same_second_come_by_priority() -> None:
    rig = Rig()
    rig.reject(pod("low"), "Picky")
    rig.time += 0.3
    rig.reject(pod("high", priority=7), "Picky")
    rig.move(NODE_LABEL)
    assert [rig.pop().pod.name for _ in range(2)] == ["high", "low"]


def test_a_pod_whose_wait_is_over_becomes_active_at_once() -> None:
    rig = Rig()
    queued = rig.reject(pod("p"), "Picky")
    rig.pass_time(3)
    rig.move(NODE_LABEL)
    assert rig.where(queued.pod) == "active"


def test_without_a_longest_wait_nobody_waits() -> None:
    rig = Rig(max_backoff=0.0)
    assert rig.where(rig.reject(pod("p")).pod) == "active"


def test_next_tick_is_when_the_first_wait_ends() -> None:
    rig = Rig()
    assert rig.queue.next_tick() == 30
    rig.reject(pod("p"))
    assert rig.queue.next_tick() == 2
    rig.time += 1.5
    assert rig.queue.next_tick() == 0.5
    rig.pass_time(0.5)
    assert rig.queue.counts()["active"] == 1
    assert rig.queue.next_tick() == 28


# ---------------------------------------------------------------- events


def test_a_rejected_pod_stays_until_its_plugin_s_event() -> None:
    rig = Rig()
    queued = rig.reject(pod("p"), "Picky")
    rig.move(CLASS_ADD)
    assert rig.where(queued.pod) == "unschedulable"
    rig.move(NODE_LABEL)
    assert rig.where(queued.pod) == "backoff"


def test_a_hint_decides_which_pods_an_event_helps() -> None:
    rig = Rig()
    rig.plugin("Picky").helps = lambda pod, old, new: pod.name == "lucky"
    lucky, other = rig.reject(pod("lucky"), "Picky"), rig.reject(pod("other"), "Picky")
    rig.move(NODE_LABEL)
    assert (rig.where(lucky.pod), rig.where(other.pod)) == ("backoff", "unschedulable")


def test_pods_that_others_rejected_are_not_even_looked_at() -> None:
    rig = Rig()
    rig.reject(pod("p"), "Gate")
    rig.move(NODE_LABEL)
    assert rig.plugin("Picky").asked == []


def test_a_hint_by_shape_is_asked_once_for_all_pods_of_a_shape() -> None:
    rig = Rig(Shapely, Gate)
    same = [rig.reject(pod(f"p{number}"), "Shapely") for number in range(5)]
    other = rig.reject(pod("other", priority=3), "Shapely")
    rig.move(NODE_LABEL)
    assert len(rig.plugin("Shapely").asked) == 2
    assert {rig.where(queued.pod) for queued in (*same, other)} == {"backoff"}


def test_a_hint_that_fails_brings_the_pod_back() -> None:
    rig = Rig()

    def fail(pod: Pod, old: object, new: object) -> bool:
        raise RuntimeError("bad hint")

    rig.plugin("Picky").helps = fail
    queued = rig.reject(pod("p"), "Picky")
    rig.move(NODE_LABEL)
    assert rig.where(queued.pod) == "backoff"


def test_the_event_of_a_pending_plugin_needs_no_backoff() -> None:
    rig = Rig()
    queued = rig.reject(pod("p"), "Picky", pending=("Picky",))
    rig.move(NODE_LABEL)
    assert rig.where(queued.pod) == "active"


def test_who_waits_for_new_nodes_hears_of_taints_too() -> None:
    rig = Rig(*IN_TREE.values())
    queued = rig.reject(pod("p"), "NodeName")
    rig.move(NODE_TAINT)
    assert rig.where(queued.pod) == "backoff"


def test_an_event_can_be_kept_from_one_pod_and_from_more_important_ones() -> None:
    rig = Rig(*IN_TREE.values())
    parked = [rig.reject(pod(f"p{priority}", priority=priority), "NodeResourcesFit") for priority in range(3)]
    gone = make_pod("gone").build().placed_on("n1")
    rig.queue.move(ASSIGNED_POD_DELETE, gone, None, parked[0].pod, up_to_priority=1)
    assert [rig.where(queued.pod) for queued in parked] == ["unschedulable", "backoff", "unschedulable"]


def test_what_happens_while_a_pod_is_decided_counts_when_it_comes_back() -> None:
    rig = Rig()
    rig.queue.add(pod("p"))
    queued = rig.pop()
    rig.move(NODE_LABEL)
    rig.queue.add_unschedulable(queued, frozenset(("Picky",)))
    assert rig.where(queued.pod) == "backoff"


def test_what_happened_before_a_pod_was_taken_does_not_count() -> None:
    rig = Rig()
    rig.queue.add(pod("first"))
    rig.queue.add(pod("second"))
    first = rig.pop()
    rig.move(NODE_LABEL)
    second = rig.pop()
    for queued in (second, first):
        rig.queue.add_unschedulable(queued, frozenset(("Picky",)))
    assert (rig.where(first.pod), rig.where(second.pod)) == ("backoff", "unschedulable")


# ---------------------------------------------------------------- gates


def test_a_gated_pod_waits_for_its_gate_only() -> None:
    rig = Rig()
    gate = rig.plugin("Gate")
    gate.closed.add("p")
    waiting = pod("p")
    rig.queue.add(waiting)
    assert rig.where(waiting) == "gated"
    asked = gate.asked
    rig.move(NODE_LABEL)
    assert gate.asked == asked, "events that do not concern the gate do not even ask it"
    rig.move(CLASS_ADD)
    assert rig.where(waiting) == "gated"
    gate.closed.clear()
    rig.move(CLASS_ADD)
    assert rig.where(waiting) == "active"


def test_a_pod_that_comes_back_may_find_the_gate_closed() -> None:
    rig = Rig()
    queued = rig.reject(pod("p"), "Picky")
    rig.plugin("Gate").closed.add("p")
    rig.move(NODE_LABEL)
    assert rig.where(queued.pod) == "gated"
    rig.plugin("Gate").closed.clear()
    rig.move(CLASS_ADD)
    assert rig.where(queued.pod) == "backoff"


def test_taking_away_the_last_scheduling_gate_lets_the_pod_in() -> None:
    rig = Rig(SchedulingGates)
    gated = pod("p", schedulingGates=[{"name": "a"}])
    rig.queue.add(gated)
    assert rig.queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 1}
    open_now = pod("p")
    rig.queue.update(gated, open_now)
    assert rig.where(open_now) == "active"


# ---------------------------------------------------------------- updates and deletes


@pytest.mark.parametrize("place", ["active", "backoff", "unschedulable"])
def test_a_waiting_pod_is_replaced_where_it_stands(place: str) -> None:
    rig = Rig()
    before = pod("p")
    if place == "active":
        rig.queue.add(before)
    else:
        rig.reject(before, *(() if place == "backoff" else ("Picky",)))
    after = msgspec.structs.replace(before, labels=intern_labels({"a": "b"}))
    rig.queue.update(before, after)
    assert rig.where(after) == place
    held = rig.queue.get(after.key)
    assert held is not None
    assert held.pod is after


def test_a_pod_that_became_more_important_moves_up() -> None:
    rig = Rig()
    rig.queue.add(pod("first", priority=1))
    rig.queue.add(pod("second"))
    rig.queue.update(pod("second"), pod("second", priority=2))
    assert rig.pop().pod.name == "second"


def test_an_update_of_a_rejected_pod_is_a_hint_like_any_other() -> None:
    rig = Rig(*IN_TREE.values())
    before = pod("p")
    rig.reject(before, "TaintToleration")
    labelled = msgspec.structs.replace(before, labels=intern_labels({"a": "b"}))
    rig.queue.update(before, labelled)
    assert rig.where(before) == "unschedulable"
    rig.queue.update(labelled, pod("p", tolerations=[{"key": "k", "operator": "Exists"}]))
    assert rig.where(before) == "backoff"


def test_an_update_while_the_pod_is_decided_counts_when_it_comes_back() -> None:
    rig = Rig(*IN_TREE.values())
    before, after = pod("p"), pod("p", tolerations=[{"key": "k", "operator": "Exists"}])
    rig.queue.add(before)
    queued = rig.pop()
    rig.queue.update(before, after)
    assert rig.where(after) == ""
    queued.pod = after
    rig.queue.add_unschedulable(queued, frozenset(("TaintToleration",)))
    assert rig.where(after) == "backoff"


def test_an_unknown_pod_that_is_updated_enters() -> None:
    rig = Rig()
    rig.queue.update(pod("p"), pod("p", priority=1))
    assert rig.where(pod("p")) == "active"


def test_another_pod_of_the_same_name_starts_afresh() -> None:
    rig = Rig()
    rig.reject(pod("p", uid="one"), "Picky")
    other = pod("p", uid="two")
    rig.queue.add(other)
    assert rig.queue.counts() == {"active": 1, "backoff": 0, "unschedulable": 0, "gated": 0}
    assert rig.pop().attempts == 1


def test_a_decided_pod_does_not_replace_a_newer_one_of_its_name() -> None:
    rig = Rig()
    rig.queue.add(pod("p", uid="one"))
    old = rig.pop()
    rig.queue.add(pod("p", uid="two"))
    rig.queue.add_unschedulable(old, frozenset(("Picky",)))
    held = rig.queue.get("default/p")
    assert held is not None
    assert held.pod.uid == "two"
    assert rig.queue.in_flight == 0


@pytest.mark.parametrize("plugins", [(), ("Picky",)])
def test_a_deleted_pod_is_nowhere(plugins: tuple[str, ...]) -> None:
    rig = Rig()
    queued = rig.reject(pod("p"), *plugins)
    rig.queue.delete(queued.pod)
    rig.pass_time(100)
    assert len(rig.queue) == 0
    assert rig.queue.pop() is None


# ---------------------------------------------------------------- activate and flush


@pytest.mark.parametrize("plugins", [(), ("Picky",)])
def test_an_activated_pod_does_not_wait(plugins: tuple[str, ...]) -> None:
    rig = Rig()
    queued = rig.reject(pod("p"), *plugins)
    rig.queue.activate([queued.pod])
    assert rig.where(queued.pod) == "active"


def test_activating_a_pod_in_flight_counts_when_it_comes_back() -> None:
    rig = Rig()
    rig.queue.add(pod("p"))
    rig.queue.add(pod("q"))
    queued, other = rig.pop(), rig.pop()
    rig.queue.activate([queued.pod, pod("unknown")])
    for one in (queued, other):
        rig.queue.add_unschedulable(one, frozenset(("Gate",)))
    assert (rig.where(queued.pod), rig.where(other.pod)) == ("backoff", "unschedulable")


def test_a_pod_left_alone_for_five_minutes_is_tried_again() -> None:
    rig = Rig()
    queued = rig.reject(pod("p"), "Picky")
    rig.pass_time(299)
    assert rig.where(queued.pod) == "unschedulable"
    rig.pass_time(31)
    assert rig.where(queued.pod) == "active"
    assert queued.after_flush
    assert rig.arrivals[-1] == ("active", UNSCHEDULABLE_TIMEOUT.label)
    rig.queue.add_unschedulable(rig.pop(), frozenset(("Picky",)))
    assert not queued.after_flush


def test_a_pod_that_was_decided_while_others_were_tried_again_after_five_minutes_is_tried_too() -> None:
    rig = Rig()
    rig.reject(pod("left-alone"), "Picky")
    rig.time += 320
    rig.queue.add(pod("p"))
    queued = rig.pop()
    rig.queue.tick()
    rig.queue.add_unschedulable(queued, frozenset(("Picky",)))
    assert rig.where(queued.pod) == "backoff"


def test_a_gated_pod_is_asked_again_every_five_minutes() -> None:
    rig = Rig()
    gate = rig.plugin("Gate")
    gate.closed.add("p")
    rig.queue.add(pod("p"))
    rig.pass_time(330)
    assert gate.asked == 2
    rig.pass_time(60)
    assert gate.asked == 2
    rig.pass_time(300)
    assert gate.asked == 3


# ---------------------------------------------------------------- nominations


def promised(name: str, node: str) -> Pod:
    return make_pod(name).status(nominatedNodeName=node).build()


def test_a_pod_that_says_which_node_it_is_promised_counts_there() -> None:
    rig = Rig()
    rig.queue.add(promised("p", "n1"))
    assert [pod.name for pod in rig.cluster.nominations.on("n1")] == ["p"]
    rig.queue.delete(promised("p", "n1"))
    assert not len(rig.cluster.nominations)


def test_a_promise_that_only_the_queue_knows_of_survives_updates() -> None:
    rig = Rig()
    before = make_pod("p").build()
    rig.queue.add(before)
    rig.cluster.nominations.add(before, "n1")
    rig.queue.update(before, make_pod("p").labels(a="b").build())
    assert [pod.labels for pod in rig.cluster.nominations.on("n1")] == [{"a": "b"}]


@pytest.mark.parametrize(("after", "node"), [("n2", "n2"), ("", None)])
def test_a_promise_that_was_written_or_withdrawn_counts(after: str, node: str | None) -> None:
    rig = Rig()
    rig.queue.add(promised("p", "n1"))
    rig.queue.update(promised("p", "n1"), promised("p", after))
    assert rig.cluster.nominations.node_of(promised("p", "").uid) == node


# ---------------------------------------------------------------- what others are told


def test_every_arrival_is_told_with_its_reason() -> None:
    rig = Rig()
    queued = rig.reject(pod("p"), "Picky")
    rig.move(NODE_LABEL)
    rig.pass_time(3)
    rig.queue.delete(queued.pod)
    gated = pod("q")
    rig.plugin("Gate").closed.add("q")
    rig.queue.add(gated)
    rig.queue.activate([gated])
    assert rig.arrivals == [
        ("active", "UnschedulablePodAdd"),
        ("unschedulable", "ScheduleAttemptFailure"),
        ("backoff", "NodeUpdateNodeLabel"),
        ("active", "BackoffComplete"),
        ("unschedulable", "UnschedulablePodAdd"),
    ]


def test_every_pod_is_listed_where_it_is() -> None:
    rig = Rig()
    rig.plugin("Gate").closed.add("gated")
    rig.reject(pod("failed"))
    rig.reject(pod("parked"), "Picky")
    rig.queue.add(pod("gated"))
    rig.queue.add(pod("ready"))
    assert rig.queue.counts() == {"active": 1, "backoff": 1, "unschedulable": 1, "gated": 1}
    assert sorted(queued.pod.name for queued in rig.queue.pods()) == ["failed", "gated", "parked", "ready"]
    assert len(rig.queue) == 4
    assert "default/parked" in rig.queue


def test_profiles_have_hints_of_their_own() -> None:
    rig = Rig(Picky, Gate, names=("default-scheduler", "other"))
    rig.profiles["other"].plugins["Picky"].helps = lambda pod, old, new: False  # type: ignore[attr-defined]
    ours, theirs = rig.reject(pod("a"), "Picky"), rig.reject(pod("b", schedulerName="other"), "Picky")
    rig.move(NODE_LABEL)
    assert (rig.where(ours.pod), rig.where(theirs.pod)) == ("backoff", "unschedulable")


def test_a_wildcard_event_moves_everybody() -> None:
    rig = Rig()
    parked = [rig.reject(pod(name), plugin) for name, plugin in (("a", "Picky"), ("b", "Gate"))]
    rig.move(UNSCHEDULABLE_TIMEOUT)
    assert [rig.where(queued.pod) for queued in parked] == ["backoff", "backoff"]


def test_a_wildcard_event_about_one_pod_moves_that_one() -> None:
    rig = Rig()
    meant, other = rig.reject(pod("a"), "Picky"), rig.reject(pod("b"), "Picky")
    rig.move(FORCE_ACTIVATE, None, meant.pod)
    assert (rig.where(meant.pod), rig.where(other.pod)) == ("backoff", "unschedulable")


def test_events_that_nobody_asked_for_are_not_kept() -> None:
    rig = Rig()
    rig.queue.add(pod("p"))
    rig.pop()
    rig.move(cluster_event(Resource.SERVICE, Action.ADD))
    assert rig.queue.recorded_events == 0
    rig.move(NODE_LABEL)
    assert rig.queue.recorded_events == 1
    rig.queue.done("uid-p")
    assert rig.queue.recorded_events == 0
