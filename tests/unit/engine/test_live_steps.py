"""Each step of a pod's way, and what may happen to the pod just then: it is deleted, bound by somebody else,
its node goes, a plugin answers nonsense. Nothing is left behind, and nobody else is held up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

import pytest

from stowplan.cluster import NodeRow
from stowplan.engine import live
from stowplan.engine.feed import Feed
from stowplan.framework import (
    CycleState,
    FilterPlugin,
    PermitPlugin,
    PreBindPlugin,
    ReservePlugin,
    Status,
    unschedulable,
)
from stowplan.framework.contract import PODS_TO_ACTIVATE, PostBindPlugin, Preflight, Wait
from stowplan.objects import Node, Pod
from stowplan.testing.builders import make_node, make_pod
from tests.unit.engine.world import World, make_world, renamed, running

STEPS = ("permit", "prebind", "bind")


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test, debug=False)


def nodes(count: int = 1) -> list[Node]:
    return [make_node(f"n{i}").capacity(cpu=4, memory="8Gi", pods=20).build() for i in range(count)]


class Stops(ReservePlugin, PermitPlugin, PreBindPlugin):
    """Stops a pod at the step that its label names."""

    reserved: ClassVar[set[str]] = set()
    at: ClassVar[dict[str, str]] = {}
    go_on: ClassVar[asyncio.Event]

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.reserved.add(pod.name)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.reserved.discard(pod.name)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait | None:
        if pod.labels.get("stops-at") != "permit":
            return None
        self.at[pod.name] = "permit"
        return Wait(60.0)

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if pod.labels.get("stops-at") == "prebind":
            self.at[pod.name] = "prebind"
            await self.go_on.wait()
        return None


def stopping_world(count: int = 1) -> tuple[World, Feed]:
    Stops.reserved.clear()
    Stops.at.clear()
    Stops.go_on = asyncio.Event()
    world = make_world(nodes(count), plugins=[Stops])

    async def before_bind(pod: Pod) -> None:
        if pod.labels.get("stops-at") == "bind":
            Stops.at[pod.name] = "bind"
            await Stops.go_on.wait()
        if pod.key not in world.pods or world.pods[pod.key].node_name or world.pods[pod.key].terminating:
            raise ConnectionError("409: the pod is not what it was")

    world.before_bind = before_bind
    core = world.live.core
    return world, Feed(core.cluster, world.live.queue, core.profiles, core.host.waiting)


def change(world: World, feed: Feed, pod: Pod, new: Pod | None) -> None:
    """The API server says that the pod is like this now, or gone."""
    if new is None:
        del world.pods[pod.key]
    else:
        world.pods[pod.key] = new
    feed.observe(pod, new)
    world.live.wake()


async def stopped_at(world: World, step: str) -> Pod:
    pod = make_pod("p").requests(cpu=1).labels({"stops-at": step}).build()
    world.add(pod)
    await world.until(lambda: Stops.at.get("p") == step)
    assert world.live.core.cluster.nodes.requested("cpu").sum() == 1000
    return pod


def at_rest(world: World) -> bool:
    live = world.live
    return (live.binding, live.queue.in_flight, live.queue.recorded_events) == (0, 0, 0) and not live._tasks


def nothing_left(world: World) -> bool:
    live = world.live
    cluster = live.core.cluster
    return (
        at_rest(world)
        and not cluster.pods
        and not cluster.assumed
        and not len(cluster.nominations)
        and not len(live.queue)
        and not len(live.core.host.waiting)
        and not live.evictions._binding
        and not Stops.reserved
        and not any(cluster.nodes.requested("cpu").tolist())
    )


@pytest.mark.parametrize("gracefully", [False, True], ids=["at once", "gracefully"])
@pytest.mark.parametrize("step", STEPS)
def test_a_pod_deleted_at_any_step_leaves_nothing_behind(step: str, gracefully: bool) -> None:
    async def test() -> None:
        world, feed = stopping_world()
        async with running(world):
            pod = await stopped_at(world, step)
            if gracefully:
                leaving = renamed(pod, deleted=1.0, resource_version="7")
                change(world, feed, pod, leaving)
                pod = leaving
                await asyncio.sleep(0.01)
                assert world.live.core.cluster.nodes.requested("cpu").tolist() == [0]
            change(world, feed, pod, None)
            Stops.go_on.set()
            await world.until(lambda: nothing_left(world))

    run(test())


@pytest.mark.parametrize("step", STEPS)
def test_a_pod_that_somebody_else_binds_at_any_step_counts_there_only(step: str) -> None:
    async def test() -> None:
        world, feed = stopping_world(2)
        async with running(world):
            pod = await stopped_at(world, step)
            cluster = world.live.core.cluster
            chosen = cluster.assumed[pod.uid].node_name
            elsewhere = "n1" if chosen == "n0" else "n0"
            change(world, feed, pod, renamed(pod.placed_on(elsewhere), resource_version="7"))
            for waiting in world.live.core.host.waiting:
                waiting.allow("Stops")
            Stops.go_on.set()
            await world.until(lambda: at_rest(world) and not Stops.reserved)
            assert cluster.pods[pod.uid].node_name == elsewhere
            assert sum(cluster.nodes.requested("cpu").tolist()) == 1000
            assert not cluster.assumed and not len(world.live.queue)

    run(test())


@pytest.mark.parametrize("step", STEPS)
def test_a_node_that_goes_with_a_pod_on_its_way_leaves_no_trace_of_it(step: str) -> None:
    async def test() -> None:
        world, feed = stopping_world()
        async with running(world):
            pod = await stopped_at(world, step)
            feed.observe(world.live.core.cluster.table.nodes[0], None)
            change(world, feed, pod, None)
            Stops.go_on.set()
            await world.until(lambda: nothing_left(world))
            assert not world.live.core.cluster._homeless

    run(test())


@pytest.mark.parametrize("step", STEPS)
def test_what_is_not_done_in_time_is_left_as_it_is_when_the_process_ends(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever schedules next takes care of the pod. Of its being turned back nobody would hear in time."""
    monkeypatch.setattr(live, "_PATIENCE", 0.01)
    worlds = []

    async def test() -> None:
        world, _ = stopping_world()
        worlds.append(world)
        async with running(world):
            await stopped_at(world, step)

    run(test())
    (world,) = worlds
    assert not world.events and not world.conditions
    assert not world.live._tasks and world.live.binding == 0


@pytest.mark.parametrize("step", ["permit", "prebind"])
def test_pods_that_wait_hold_up_nobody(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_BINDING", 2)

    async def test() -> None:
        world, _ = stopping_world()
        async with running(world):
            world.add(*(make_pod(f"held{i}").labels({"stops-at": step}) for i in range(3)))
            world.add(make_pod("free"))
            await world.until(lambda: world.node_of("free") != "")
            for waiting in world.live.core.host.waiting:
                waiting.allow("Stops")
            Stops.go_on.set()
            await world.until(lambda: all(pod.node_name for pod in world.pods.values()))
            assert world.live._held_up == 0

    run(test())


def test_no_more_pods_are_decided_than_the_api_server_can_bind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_BINDING", 2)

    async def test() -> None:
        world, _ = stopping_world()
        async with running(world):
            world.add(*(make_pod(f"p{i}").labels({"stops-at": "bind"}) for i in range(5)))
            await world.until(lambda: len(Stops.at) == 2)
            await asyncio.sleep(0.02)
            assert len(world.live.core.cluster.assumed) == 2
            Stops.go_on.set()
            await world.until(lambda: all(pod.node_name for pod in world.pods.values()))

    run(test())


class Thorough(PostBindPlugin):
    """Takes its time with pods that are bound already."""

    go_on: ClassVar[asyncio.Event]

    async def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        await self.go_on.wait()


def test_pods_that_are_bound_hold_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_BINDING", 1)

    async def test() -> None:
        Thorough.go_on = asyncio.Event()
        world = make_world(nodes(), plugins=[Thorough])
        async with running(world):
            world.add(make_pod("first"), make_pod("second"))
            await world.until(lambda: world.node_of("second") != "")
            Thorough.go_on.set()

    run(test())


class Couple(FilterPlugin, PermitPlugin):
    """Two who go together: the second is turned away until the first has called for it."""

    called = False

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        return None if pod.name == "first" or Couple.called else unschedulable("not called yet")

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait | None:
        if pod.name == "first":
            Couple.called = True
            state[PODS_TO_ACTIVATE] = {"second": make_pod("second").build()}
            return Wait(60.0)
        for waiting in self.handle.waiting:
            waiting.allow("Couple")
        return None


def test_a_pod_that_is_held_back_can_call_for_others() -> None:
    async def test() -> None:
        Couple.called = False
        async with running(make_world(nodes(), plugins=[Couple])) as world:
            world.add(make_pod("second"))
            await world.until(lambda: "default/second" in world.conditions)
            world.add(make_pod("first"))
            await world.until(lambda: all(pod.node_name for pod in world.pods.values()))

    run(test())


class CallsNonsense(PermitPlugin):
    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait | None:
        state[PODS_TO_ACTIVATE] = ["no", "pods"]
        return None


class Nonsense(ReservePlugin, PermitPlugin, PreBindPlugin, PostBindPlugin):
    """Answers with nonsense, or fails, at the point that the pod's label names."""

    answer: ClassVar[Callable[[], Any]]
    unreserved: ClassVar[list[str]] = []

    def _at(self, point: str, pod: Pod) -> Any:
        return Nonsense.answer() if pod.labels.get("nonsense-at") == point else None

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return self._at("reserve", pod)

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.unreserved.append(pod.name)
        self._at("unreserve", pod)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return self._at("permit", pod)

    def pre_bind_preflight(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return self._at("preflight", pod) or Preflight(None)

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return self._at("prebind", pod)

    async def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._at("postbind", pod)


def fail() -> Any:
    raise RuntimeError("the disk is on fire")


ANSWERS: dict[str, Callable[[], Any]] = {
    "raises": fail,
    "a word": lambda: "no",
    "a number": lambda: 1,
    "a wait of no time": lambda: Wait(float("nan")),
    "a wait of words": lambda: Wait("a minute"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("point", ["reserve", "permit", "preflight", "prebind"])
def test_nonsense_at_any_point_is_taken_back_and_harms_no_other_pod(point: str, answer: str) -> None:
    async def test() -> None:
        Nonsense.answer = staticmethod(ANSWERS[answer])
        Nonsense.unreserved.clear()
        async with running(make_world(nodes(), plugins=[Nonsense])) as world:
            world.add(make_pod("bad").requests(cpu=1).labels({"nonsense-at": point}), make_pod("good"))
            await world.until(lambda: world.node_of("good") == "n0")
            await world.until(lambda: "default/bad" in world.conditions)
            assert "bad" in Nonsense.unreserved
            assert "good" not in Nonsense.unreserved
            assert world.node_of("bad") == ""
            assert len(world.live.core.host.waiting) == 0

    run(test())


@pytest.mark.parametrize("plugin", [CallsNonsense, Nonsense])
def test_nonsense_after_the_decision_stops_no_pod(plugin: type[Any]) -> None:
    async def test() -> None:
        Nonsense.answer = staticmethod(fail)
        async with running(make_world(nodes(), plugins=[plugin])) as world:
            world.add(make_pod("p").labels({"nonsense-at": "postbind"}))
            await world.until(lambda: at_rest(world) and world.node_of("p") == "n0")
            assert world.bind_calls == [("default/p", "n0")]
            assert world.reasons("p") == ["Scheduled"]

    run(test())
