"""Events are kept as long as some pod needs them, and not longer."""

from __future__ import annotations

from stowplan.queue.inflight import InFlight
from tests.unit.queue.rig import CLASS_ADD, NODE_LABEL, NODE_TAINT


def test_what_is_kept_is_counted_by_what_it_is() -> None:
    in_flight = InFlight()
    assert in_flight.counts() == {"PodPopped": 0}
    in_flight.start("a")
    in_flight.start("b")
    for event in (NODE_LABEL, NODE_TAINT, NODE_LABEL):
        in_flight.record(event, None, None)
    assert in_flight.counts() == {"PodPopped": 2, NODE_LABEL.label: 2, NODE_TAINT.label: 1}


def test_a_pod_sees_what_happened_since_it_was_taken() -> None:
    in_flight = InFlight()
    assert in_flight.start("a")
    in_flight.record(NODE_LABEL, None, 1)
    assert in_flight.start("b")
    in_flight.record(NODE_TAINT, 1, 2)
    assert [happened.event for happened in in_flight.events_for("a")] == [NODE_LABEL, NODE_TAINT]
    assert [happened.event for happened in in_flight.events_for("b")] == [NODE_TAINT]
    assert list(in_flight.events_for("unknown")) == []


def test_a_pod_cannot_be_taken_twice() -> None:
    in_flight = InFlight()
    assert in_flight.start("a")
    assert not in_flight.start("a")
    in_flight.done("a")
    in_flight.done("a")
    assert in_flight.start("a")


def test_events_are_dropped_with_the_oldest_pod_that_needs_them() -> None:
    in_flight = InFlight()
    in_flight.record(CLASS_ADD, None, None)
    assert in_flight.event_count == 0
    for uid in ("a", "b", "c"):
        in_flight.start(uid)
        in_flight.record(NODE_LABEL, None, uid)
    in_flight.done("b")
    assert in_flight.event_count == 3
    in_flight.done("a")
    assert in_flight.event_count == 1
    assert [happened.new for happened in in_flight.events_for("c")] == ["c"]
    in_flight.done("c")
    assert (in_flight.event_count, len(in_flight)) == (0, 0)
