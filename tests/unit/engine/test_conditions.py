"""What is said of pods without a node: written in order, each once, and in nobody's way."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from stowplan.cluster.nominations import Nominations
from stowplan.engine import conditions
from stowplan.engine.conditions import ConditionWriter
from stowplan.engine.feed import Feed
from stowplan.engine.planner import PodCondition
from stowplan.objects import Pod
from stowplan.testing.builders import make_node, make_pod
from tests.unit.engine.world import make_world, renamed, running


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test, debug=False)


def condition(message: str) -> PodCondition:
    return PodCondition("PodScheduled", "False", "Unschedulable", message)


@dataclass
class Slow:
    """An API server that answers when it is told to."""

    pods: dict[str, Pod] = field(default_factory=dict)
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    fails: bool = False
    nominations: Nominations = field(default_factory=Nominations)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def patch_status(
        self, pod: Pod, *, condition: PodCondition | None = None, nominated_node: str | None = None
    ) -> None:
        assert condition is not None
        self.asked.append((pod.name, condition.message, nominated_node))
        await self.go_on.wait()
        if self.fails:
            raise ConnectionError("connection reset")

    def get(self, key: str) -> Pod | None:
        return self.pods.get(key)

    def writer(self) -> ConditionWriter:
        planner: Any = self
        return ConditionWriter(planner, self, self.nominations, self._spawn)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def add(self, name: str) -> Pod:
        pod = make_pod(name).build()
        self.pods[pod.key] = pod
        return pod

    async def all_written(self) -> None:
        self.go_on.set()
        while self.tasks:
            await asyncio.wait(self.tasks)


def test_what_is_said_later_takes_the_place_of_what_waits() -> None:
    async def test() -> None:
        slow = Slow()
        writer, pod = slow.writer(), slow.add("p")
        for attempt in range(5):
            writer.write(pod, condition(f"attempt {attempt}"), None)
            await asyncio.sleep(0)
        await slow.all_written()
        assert slow.asked == [("p", "attempt 0", None), ("p", "attempt 4", None)]

    run(test())


def test_few_are_written_at_a_time_and_those_that_waited_longest_are_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conditions, "AT_ONCE", 2)

    async def test() -> None:
        slow = Slow()
        writer = slow.writer()
        names = [f"p{number}" for number in range(6)]
        for pod in map(slow.add, names):
            writer.write(pod, condition("no room"), None)
        await asyncio.sleep(0)
        assert len(slow.asked) == 2
        await slow.all_written()
        assert [name for name, _, _ in slow.asked] == names

    run(test())


def test_a_promise_is_written_though_something_else_was_said_since(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "AT_ONCE", 1)

    async def test() -> None:
        slow = Slow()
        writer, pod = slow.writer(), slow.add("p")
        writer.write(slow.add("first"), condition("no room"), None)
        slow.nominations.add(pod, "n1")
        writer.write(pod, condition("no room"), "n1")
        writer.write(pod, condition("the victims are leaving"), None)
        await slow.all_written()
        assert slow.asked == [("first", "no room", None), ("p", "the victims are leaving", "n1")]

    run(test())


def test_a_promise_that_was_withdrawn_meanwhile_is_not_written() -> None:
    async def test() -> None:
        slow = Slow()
        writer, pod = slow.writer(), slow.add("p")
        slow.nominations.add(pod, "n1")
        writer.write(pod, condition("no room"), "n1")
        slow.nominations.remove(pod.uid)
        await slow.all_written()
        assert slow.asked == [("p", "no room", "")]

    run(test())


def test_nothing_is_written_about_pods_that_are_gone_or_have_a_node() -> None:
    async def test() -> None:
        slow = Slow()
        writer = slow.writer()
        gone, replaced, bound = slow.add("gone"), slow.add("replaced"), slow.add("bound")
        for pod in (gone, replaced, bound):
            writer.write(pod, condition("no room"), None)
        del slow.pods[gone.key]
        slow.pods[replaced.key] = renamed(replaced, uid="another")
        slow.pods[bound.key] = bound.placed_on("n1")
        await slow.all_written()
        assert not slow.asked

    run(test())


def test_what_cannot_be_written_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "AT_ONCE", 1)

    async def test() -> None:
        slow = Slow(fails=True)
        writer = slow.writer()
        for pod in map(slow.add, ("p", "q")):
            writer.write(pod, condition("no room"), None)
        await slow.all_written()
        assert [name for name, _, _ in slow.asked] == ["p", "q"]

    run(test())


def test_a_pod_that_gets_a_node_is_bound_when_all_is_written_that_was_begun() -> None:
    """Otherwise the condition of a pod that runs could say forever that it has no node."""

    async def test() -> None:
        world = make_world([make_node("n0").capacity(cpu=1, memory="8Gi", pods=20).build()])
        core = world.live.core
        feed = Feed(core.cluster, world.live.queue, core.profiles, core.host.waiting)
        patch_status, go_on, done = world.patch_status, asyncio.Event(), list[str]()

        async def slow(
            pod: Pod, *, condition: PodCondition | None = None, nominated_node: str | None = None
        ) -> None:
            await go_on.wait()
            await patch_status(pod, condition=condition, nominated_node=nominated_node)
            done.append("condition")

        async def before_bind(pod: Pod) -> None:
            done.append("bind")

        world.patch_status = slow  # type: ignore[method-assign]
        world.before_bind = before_bind
        async with running(world):
            world.add(make_pod("p").requests(cpu=2))
            await world.until(lambda: world.reasons("p") == ["FailedScheduling"])
            feed.observe(None, make_node("n1").capacity(cpu=4, memory="8Gi", pods=20).build())
            world.live.wake()
            await world.until(lambda: world.live.binding == 1)
            await asyncio.sleep(0.01)
            go_on.set()
            await world.until(lambda: world.node_of("p") == "n1")
            assert done == ["condition", "bind"]

    run(test())


def test_nothing_more_is_said_of_a_pod_that_gets_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "AT_ONCE", 1)

    async def test() -> None:
        slow = Slow()
        writer = slow.writer()
        first, second = slow.add("first"), slow.add("second")
        for pod in (first, second):
            writer.write(pod, condition("no room"), None)
        await asyncio.sleep(0)
        writer.write(first, condition("still no room"), None)
        await writer.settle(second)
        settling = asyncio.ensure_future(writer.settle(first))
        await slow.all_written()
        await settling
        assert slow.asked == [("first", "no room", None)]

    run(test())
