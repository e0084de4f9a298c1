"""Preemption carried out: the victims go, once each, and the preemptor is neither early nor forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from stowplan.engine.observer import Observer
from stowplan.engine.planner import PodCondition
from stowplan.framework import CycleState, PermitPlugin, PreBindPlugin, Status
from stowplan.framework.contract import PostFilterPlugin, PostFilterResult, Wait
from stowplan.framework.decision import Rejections
from stowplan.framework.events import ASSIGNED_POD_DELETE
from stowplan.framework.status import unschedulable
from stowplan.objects import Node, Pod
from stowplan.testing.builders import make_node, make_pod
from tests.unit.engine.world import World, make_world, renamed, running


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test, debug=False)


def node(cpu: int = 2) -> list[Node]:
    return [make_node("n0").capacity(cpu=cpu, memory="8Gi", pods=20).build()]


def add_victims(world: World, count: int = 2) -> list[Pod]:
    victims = [make_pod(f"low{i}").requests(cpu=1).on_node("n0").build() for i in range(count)]
    world.add(*victims)
    return victims


HIGH = make_pod("high").requests(cpu=2).priority(10).build()


def test_the_preemptor_is_kept_out_from_the_moment_its_victims_are_chosen() -> None:
    async def test() -> None:
        world = make_world(node())
        victims = add_victims(world)
        world.add(HIGH)
        queued = world.live.queue.pop()
        assert queued is not None
        world.live.schedule(queued)
        world.live.queue.move(ASSIGNED_POD_DELETE, victims[0], None)
        assert world.live.queue.where(HIGH.key) == "gated"
        async with running(world):
            await world.until(lambda: world.node_of("high") == "n0")

    run(test())


def test_the_preemptor_is_kept_out_until_the_last_victim_is_seen_to_go() -> None:
    async def test() -> None:
        async with running(make_world(node())) as world:
            evict, go_on = world.evict, asyncio.Event()

            async def slow_in_the_end(pod: Pod) -> None:
                if world.evicted:
                    await go_on.wait()
                await evict(pod)

            world.evict = slow_in_the_end  # type: ignore[method-assign]
            victims = add_victims(world)
            world.add(HIGH)
            await world.until(lambda: len(world.evicted) == 1)
            await asyncio.sleep(0.05)
            world.live.queue.move(ASSIGNED_POD_DELETE, victims[0], None)
            assert world.live.queue.where(HIGH.key) == "gated"
            go_on.set()
            await world.until(lambda: world.node_of("high") == "n0")
            assert sorted(world.evicted) == ["default/low0", "default/low1"]
            assert world.reasons("low0") == world.reasons("low1") == ["Preempted"]

    run(test())


def test_victims_that_are_leaving_already_are_not_evicted_again() -> None:
    async def test() -> None:
        async with running(make_world(node())) as world:
            first, second = add_victims(world)
            world.live.core.cluster.add(renamed(first, deleted=1.0))
            world.add(HIGH)
            await world.until(lambda: bool(world.evicted))
            await asyncio.sleep(0.01)
            assert world.evicted == [second.key]

    run(test())


def test_a_victim_of_two_preemptors_is_removed_once_and_both_wait_for_it() -> None:
    async def test() -> None:
        world = make_world(node(cpu=4))
        evict, go_on = world.evict, asyncio.Event()

        async def slow(pod: Pod) -> None:
            await go_on.wait()
            await evict(pod)

        world.evict = slow  # type: ignore[method-assign]
        add_victims(world, 4)
        async with running(world):
            first, second = (make_pod(f"high{i}").requests(cpu=2).priority(10) for i in range(2))
            world.add(first, second)
            await world.until(lambda: len(world.live.core.cluster.nominations) == 2)
            await asyncio.sleep(0.02)
            go_on.set()
            await world.until(lambda: world.node_of("high0") == world.node_of("high1") == "n0")
        names = [f"low{i}" for i in range(4)]
        assert sorted(world.evicted) == [f"default/{name}" for name in names]
        assert all(world.reasons(name) == ["Preempted"] for name in names)
        assert not world.live.evictions._going

    run(test())


def test_a_preemption_that_fails_is_tried_again_at_once() -> None:
    async def test() -> None:
        async with running(make_world(node())) as world:
            patch_status = world.patch_status
            failures: list[str] = []

            async def fail_once(
                pod: Pod, *, condition: PodCondition | None = None, nominated_node: str | None = None
            ) -> None:
                if pod.name == "low0" and not failures:
                    await asyncio.sleep(0.02)  # the loop is at rest by then
                    failures.append(pod.name)
                    raise ConnectionError("connection reset")
                await patch_status(pod, condition=condition, nominated_node=nominated_node)

            world.patch_status = fail_once  # type: ignore[method-assign]
            add_victims(world)
            world.add(HIGH)
            await world.until(lambda: world.node_of("high") == "n0")
            assert failures

    run(test())


def test_the_less_important_are_no_longer_promised_the_node() -> None:
    async def test() -> None:
        async with running(make_world(node())) as world:
            nominations = world.live.core.cluster.nominations
            for name, priority in (("lesser", 5), ("equal", 10)):
                promised = make_pod(name).requests(cpu="100m").priority(priority).build()
                nominations.add(promised, "n0")
            add_victims(world)
            world.add(make_pod("high").requests(cpu="1500m").priority(10))
            await world.until(lambda: len(world.evicted) == 2)
            assert ("default/lesser", "") in world.nominated
            assert [pod.name for pod in nominations.on("n0") if pod.name != "high"] == ["equal"]

    run(test())


def test_who_found_another_node_meanwhile_keeps_that_promise() -> None:
    async def test() -> None:
        async with running(make_world(node())) as world:
            nominations = world.live.core.cluster.nominations
            first, second = (
                make_pod(name).requests(cpu="100m").priority(5).build() for name in ("first", "second")
            )
            for promised in (first, second):
                nominations.add(promised, "n0")
            patch_status = world.patch_status

            async def meanwhile(
                pod: Pod, *, condition: PodCondition | None = None, nominated_node: str | None = None
            ) -> None:
                if pod is first:
                    nominations.add(second, "n1")
                await patch_status(pod, condition=condition, nominated_node=nominated_node)

            world.patch_status = meanwhile  # type: ignore[method-assign]
            add_victims(world)
            world.add(make_pod("high").requests(cpu="1500m").priority(10))
            await world.until(lambda: len(world.evicted) == 2)
            assert nominations.node_of(second.uid) == "n1"
            assert ("default/second", "") not in world.nominated

    run(test())


class Slow(PermitPlugin, PreBindPlugin):
    """Holds pods back until they are allowed, and then is slow to prepare them."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait | None:
        return Wait(60.0) if pod.name == "low" else None

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if pod.name == "low":
            await asyncio.sleep(60.0)
        return None


@pytest.mark.parametrize("settled", [True, False], ids=["preparing", "just allowed"])
def test_a_victim_that_was_allowed_and_is_not_bound_yet_makes_way_without_being_deleted(
    settled: bool,
) -> None:
    async def test() -> None:
        async with running(make_world(node(cpu=1), plugins=[Slow])) as world:
            world.add(make_pod("low").requests(cpu=1))
            waiting = world.live.core.host.waiting
            await world.until(lambda: len(waiting) == 1)
            one = next(iter(waiting))
            if settled:
                one.allow("Slow")
                await world.until(lambda: len(waiting) == 0)
            else:
                evict = world.live.evictions._stop_in_memory

                def allowed_in_this_moment(victim: Pod) -> bool:
                    one.allow("Slow")
                    return evict(victim)

                world.live.evictions._stop_in_memory = allowed_in_this_moment  # type: ignore[method-assign]
            world.add(make_pod("high").requests(cpu=1).priority(10))
            await world.until(lambda: world.node_of("high") == "n0")
            assert world.evicted == []
            assert world.reasons("low")[0] == "Preempted"
            assert world.live.queue.where("default/low") != ""

    run(test())


class Deaf(PostFilterPlugin):
    """Fails whenever it is told something."""

    def post_filter(self, state: CycleState, pod: Pod, rejections: Rejections) -> PostFilterResult:
        return PostFilterResult(unschedulable("cannot help"))

    def making_room(self, pod: Pod, victims: tuple[Pod, ...]) -> None:
        raise RuntimeError("what?")


class Counter(Observer):
    def __init__(self) -> None:
        self.results: list[str] = []

    def preemption_carried_out(self, result: str, seconds: float) -> None:
        self.results.append(result)


def test_a_plugin_that_cannot_be_told_of_it_does_not_stop_a_preemption() -> None:
    async def test() -> None:
        world = make_world(node(), plugins=[Deaf])
        counter = world.live.evictions._observer = Counter()
        async with running(world):
            add_victims(world)
            world.add(HIGH)
            await world.until(lambda: world.node_of("high") == "n0")
            assert counter.results == ["success"]

    run(test())
