"""Events are written some time soon, in series, and never in the way."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from stowplan.kube import recorder as recorder_module
from stowplan.kube.errors import ApiError, UncertainError, UnreachableError
from stowplan.kube.recorder import Recorder, shortened
from stowplan.kube.transport import Answer
from stowplan.objects import KubeObject, Node, Pod
from tests.unit.kube.virtualtime import VirtualTime

POD = Pod(name="web-1", namespace="shop", uid="u-1", resource_version="7")


class EventClient:
    """An API server that keeps events."""

    def __init__(self) -> None:
        self.events: dict[str, Any] = {}
        self.seen: list[tuple[str, str, Any]] = []
        self.problems: list[ApiError] = []
        self.gate: asyncio.Event | None = None
        self.busy = self.busiest = 0
        self.closed = False

    async def request(self, method: str, target: str, body: bytes = b"", *, content_type: str = "") -> Answer:
        self.seen.append((method, target, json.loads(body)))
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        try:
            if self.gate is not None:
                await self.gate.wait()
            if self.problems:
                problem = self.problems.pop(0)
                if isinstance(problem, UncertainError):
                    self.keep(method, target, json.loads(body))
                raise problem
            self.keep(method, target, json.loads(body))
        finally:
            self.busy -= 1
        return Answer(201, (), b"{}")

    def keep(self, method: str, target: str, body: Any) -> None:
        if method == "POST":
            path = f"{target}/{body['metadata']['name']}"
            if path in self.events:
                raise ApiError(409, "AlreadyExists", "there is one")
            self.events[path] = body
        elif target not in self.events:
            raise ApiError(404, "NotFound", "no such event")
        else:
            self.events[target] |= body


class World:
    """A recorder and what it works with."""

    def __init__(self, **options: Any) -> None:
        self.time = VirtualTime()
        self.client = EventClient()
        client: Any = self.client
        self.recorder = Recorder(
            client, host="box", wall_clock=self.time.clock, sleep=self.time.sleep, **options
        )

    def record(self, regarding: KubeObject = POD, note: str = "no room", **more: Any) -> None:
        details = {"type": "Warning", "reason": "FailedScheduling", "action": "Scheduling"} | more
        self.recorder.record(regarding, reporter="default-scheduler", note=note, **details)

    async def settle(self, seconds: float = 0.0) -> None:
        await self.time.pass_by(seconds)


def test_an_event_as_kubectl_shows_it() -> None:
    async def main() -> None:
        world = World()
        node = Node(name="n-1", uid="n-u", resource_version="3")
        world.record(related=node)
        await world.settle()
        ((method, target, event),) = world.client.seen
        assert (method, target) == ("POST", "/apis/events.k8s.io/v1/namespaces/shop/events")
        name = event["metadata"]["name"]
        assert name == f"web-1.{int(1000e9):x}"
        assert event == {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": "shop"},
            "eventTime": "1970-01-01T00:16:40.000000Z",
            "reportingController": "default-scheduler",
            "reportingInstance": "default-scheduler-box",
            "type": "Warning",
            "reason": "FailedScheduling",
            "action": "Scheduling",
            "note": "no room",
            "regarding": {
                "kind": "Pod",
                "apiVersion": "v1",
                "namespace": "shop",
                "name": "web-1",
                "uid": "u-1",
                "resourceVersion": "7",
            },
            "related": {
                "kind": "Node",
                "apiVersion": "v1",
                "namespace": "",
                "name": "n-1",
                "uid": "n-u",
                "resourceVersion": "3",
            },
        }

    asyncio.run(main())


def test_a_note_that_cannot_be_encoded_is_written_as_well_as_it_can() -> None:
    async def main() -> None:
        world = World()
        world.record(note="half a \ud83d, a whole \ud83d\ude00")
        await world.settle()
        ((_, _, event),) = world.client.seen
        assert event["note"] == "half a \ufffd, a whole \U0001f600"

    asyncio.run(main())


def test_the_same_again_is_a_series() -> None:
    async def main() -> None:
        world = World()
        world.record()
        await world.settle(1)
        world.record(note="another text is no other event")
        await world.settle(1)
        for _ in range(5):
            world.record()
            await world.settle(1)
        assert [method for method, _, _ in world.client.seen] == ["POST", "PATCH"]
        (event,) = world.client.events.values()
        assert event["series"] == {"count": 2, "lastObservedTime": "1970-01-01T00:16:41.000000Z"}
        assert event["note"] == "no room"
        await world.settle(400)
        world.record(Pod(name="other", namespace="shop", uid="u-2"))  # time to tidy up
        await world.settle()
        assert event["series"]["count"] == 7
        world.record()
        await world.settle()
        assert len(world.client.events) == 3, "after a while it is a new event"

    asyncio.run(main())


def test_a_long_series_is_written_now_and_then() -> None:
    async def main() -> None:
        world = World()
        for _ in range(200):
            world.record()
            await world.settle(10)
        (event,) = world.client.events.values()
        assert event["series"]["count"] == 181
        assert len(world.client.seen) == 3

    asyncio.run(main())


@pytest.mark.parametrize(
    "other",
    [
        {"reason": "Preempted"},
        {"action": "Preempting"},
        {"type": "Normal"},
        {"related": POD},
        {"regarding": Pod(name="web-1", namespace="shop", uid="u-1", resource_version="8")},
    ],
)
def test_what_differs_is_another_event(other: dict[str, Any]) -> None:
    async def main() -> None:
        world = World()
        world.record()
        world.record(**other)
        await world.settle()
        assert len(world.client.events) == 2

    asyncio.run(main())


def test_a_second_time_before_the_first_was_written_costs_nothing() -> None:
    async def main() -> None:
        world = World()
        world.record()
        world.record()
        await world.settle()
        ((method, _, event),) = world.client.seen
        assert method == "POST" and event["series"]["count"] == 2

    asyncio.run(main())


def test_a_second_time_while_the_first_is_being_written_is_not_lost() -> None:
    async def main() -> None:
        world = World()
        world.client.gate = asyncio.Event()
        world.record()
        await world.settle()
        world.record()
        world.client.gate.set()
        await world.settle()
        (event,) = world.client.events.values()
        assert event["series"]["count"] == 2

    asyncio.run(main())


def test_objects_without_a_namespace_have_their_events_in_default() -> None:
    async def main() -> None:
        world = World()
        world.record(Node(name="n-1"))
        world.record(Node(name="n" * 253))
        await world.settle()
        assert {event["metadata"]["namespace"] for event in world.client.events.values()} == {"default"}
        assert all(len(event["metadata"]["name"]) <= 253 for event in world.client.events.values())

    asyncio.run(main())


def test_when_too_many_wait_the_oldest_go() -> None:
    async def main() -> None:
        world = World(capacity=10, parallel=2)
        world.client.gate = asyncio.Event()
        for number in range(30):
            world.record(Pod(name=f"p-{number}", namespace="shop", uid=str(number)))
            if number == 1:
                await world.settle()  # two are on their way
        assert world.recorder.dropped == 18
        world.client.gate.set()
        await world.settle()
        names = [event["regarding"]["name"] for event in world.client.events.values()]
        assert sorted(names) == ["p-0", "p-1", *(f"p-{number}" for number in range(20, 30))]
        assert world.client.busiest == 2
        world.record(Pod(name="p-5", namespace="shop", uid="5"))
        await world.settle()
        assert len(world.client.events) == 13, "what was dropped is not taken for written"

    asyncio.run(main())


def test_events_give_way_to_what_is_more_important_until_too_many_wait() -> None:
    async def main() -> None:
        important = True
        world = World(capacity=40, parallel=4, gives_way=lambda: important)

        async def record(count: int) -> None:
            for _ in range(count):
                number = len(world.recorder._known)
                world.record(Pod(name=f"p-{number}", namespace="shop", uid=str(number)))
            await world.settle()

        await record(10)
        assert not world.client.events
        await world.settle(0.1)
        assert len(world.client.events) == 2
        world.client.gate = asyncio.Event()
        await record(20)
        await world.settle(0.1)
        assert world.client.busy == 4
        world.client.gate.set()
        await world.settle()
        assert len(world.client.events) == 10, "until no more than half of what may wait does"
        important = False
        await world.settle(0.1)
        assert (len(world.client.events), world.recorder.dropped) == (30, 0)

    asyncio.run(main())


def test_events_that_gave_way_are_written_at_the_end() -> None:
    async def main() -> None:
        world = World(gives_way=lambda: True)
        world.record()
        await world.time.finish(world.recorder.close(patience=1.0))
        assert len(world.client.events) == 1

    asyncio.run(main())


def test_whoever_is_called_for_at_the_end_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        world = World(gives_way=lambda: True)
        answer_at_once = world.client.request

        async def request(method: str, target: str, body: bytes = b"", *, content_type: str = "") -> Answer:
            for _ in range(len(world.client.seen) % 5):
                await asyncio.sleep(0)
            return await answer_at_once(method, target, body, content_type=content_type)

        monkeypatch.setattr(world.client, "request", request)
        for number in range(50):
            world.record(Pod(name=f"p-{number}", namespace="shop", uid=str(number)))
        await world.time.finish(world.recorder.close(patience=5.0))
        assert (len(world.client.events), world.recorder.dropped) == (50, 0)

    asyncio.run(main())


def test_recording_waits_for_nothing_and_does_not_fail() -> None:
    async def main() -> None:
        world = World()
        world.client.problems = [ApiError(403, "Forbidden", "not allowed")]
        world.record()
        assert not world.client.seen
        await world.settle()
        assert (len(world.client.seen), world.recorder.dropped) == (1, 1)

    asyncio.run(main())


def test_passing_trouble_is_waited_out() -> None:
    async def main() -> None:
        world = World(parallel=1)
        world.client.problems = [
            UnreachableError("refused"),
            ApiError(500, "InternalError", "etcd"),
            ApiError(429, "TooManyRequests", "later", retry_after=5.0),
        ]
        world.record()
        world.record(Pod(name="other", namespace="shop", uid="u-2"))
        await world.settle(60)
        assert sorted(event["regarding"]["name"] for event in world.client.events.values()) == [
            "other",
            "web-1",
        ]
        assert world.time.slept == [0.5, 1.0, 5.0]
        assert world.recorder.dropped == 0

    asyncio.run(main())


def test_trouble_that_does_not_pass_costs_the_event() -> None:
    async def main() -> None:
        world = World(parallel=1)
        world.client.problems = [UnreachableError("refused")] * 12
        world.record()
        await world.settle(600)
        assert (len(world.client.seen), world.recorder.dropped) == (12, 1)

    asyncio.run(main())


def test_an_answer_that_was_lost_does_not_make_two_events() -> None:
    async def main() -> None:
        world = World()
        world.client.problems = [UncertainError("cut")]
        world.record()
        await world.settle(60)
        assert len(world.client.events) == 1 and world.recorder.dropped == 0

    asyncio.run(main())


def test_a_series_whose_event_expired_is_made_again() -> None:
    async def main() -> None:
        world = World()
        world.record()
        await world.settle()
        world.client.events.clear()
        world.record()
        await world.settle()
        (event,) = world.client.events.values()
        assert event["series"]["count"] == 2

    asyncio.run(main())


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "_MOST_REMEMBERED", 20)

    async def main() -> None:
        world = World()
        for number in range(500):
            world.record(Pod(name=f"p-{number}", namespace="shop", uid=str(number)))
            await asyncio.sleep(0)
        await world.settle()
        assert len(world.client.events) == 500
        assert len(world.recorder._known) == 20

    asyncio.run(main())


def test_closing_writes_what_waits_and_then_stops() -> None:
    async def main() -> None:
        world = World()
        world.record()
        await world.recorder.close(patience=5)
        assert len(world.client.events) == 1
        world.record()
        await world.settle()
        assert len(world.client.seen) == 1

        stuck = World()
        stuck.client.gate = asyncio.Event()
        stuck.record()
        await stuck.settle()
        await stuck.recorder.close(patience=0.01)
        assert not stuck.client.events
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


@pytest.mark.parametrize(
    ("note", "size"), [("x" * 1024, 1024), ("x" * 1025, 1024), ("é" * 600, 1024), ("x" + "é" * 599, 1023)]
)
def test_notes_are_as_long_as_allowed(note: str, size: int) -> None:
    short = shortened(note)
    assert len(short.encode()) == size
    assert short == note or (short.endswith(" ...") and note.startswith(short[:-4]))


def test_every_occurrence_is_counted_whatever_fails() -> None:
    async def main() -> None:
        dice = random.Random(7)
        world = World(parallel=3)
        pods = [Pod(name=f"p-{number}", namespace="shop", uid=str(number)) for number in range(10)]
        counts = dict.fromkeys((pod.name for pod in pods), 0)
        for _ in range(600):
            pod = dice.choice(pods)
            counts[pod.name] += 1
            world.record(pod)
            if dice.random() < 0.1 and len(world.client.problems) < 2:
                problem = dice.choice([UnreachableError("x"), UncertainError("x"), ApiError(503, "x", "x")])
                world.client.problems.append(problem)
            await world.settle(dice.uniform(0, 2))
        world.client.problems.clear()
        await world.settle(500)
        world.recorder.tidy()
        await world.settle(60)
        told = {
            event["regarding"]["name"]: event.get("series", {"count": 1})["count"]
            for event in world.client.events.values()
        }
        assert told == counts
        assert world.recorder.dropped == 0

    asyncio.run(main())
