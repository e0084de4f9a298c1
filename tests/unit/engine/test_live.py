"""The loop: pods get their nodes, and whatever fails on the way, none is lost, bound twice or left counted
where it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from stowplan.engine.observer import Observer
from stowplan.framework import (
    CycleState,
    PermitPlugin,
    PreBindPlugin,
    ReservePlugin,
    Status,
    unschedulable,
)
from stowplan.framework.contract import Preflight, Wait
from stowplan.framework.status import Code, error
from stowplan.objects import Node, Pod
from stowplan.testing.builders import make_node, make_pod
from tests.unit.engine.world import World, make_world, renamed, running


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test, debug=False)


def nodes(count: int, cpu: int = 4) -> list[Node]:
    return [make_node(f"n{i}").capacity(cpu=cpu, memory="8Gi", pods=20).build() for i in range(count)]


def test_pods_are_bound_and_said_to_be() -> None:
    async def test() -> None:
        async with running(make_world(nodes(3))) as world:
            world.add(*(make_pod(f"p{i}").requests(cpu="500m") for i in range(10)))
            await world.until(lambda: all(pod.node_name for pod in world.pods.values()))
        assert world.reasons("p3") == ["Scheduled"]
        assert world.events[0].note.startswith("Successfully assigned default/p")
        assert not world.live.core.cluster.assumed
        assert world.live.queue.in_flight == 0

    run(test())


def test_a_pod_that_fits_nowhere_is_told_so_and_left_alone() -> None:
    async def test() -> None:
        async with running(make_world(nodes(1, cpu=1))) as world:
            world.add(make_pod("big").requests(cpu=2))
            await world.until(lambda: "default/big" in world.conditions)
            condition = world.conditions["default/big"]
            assert (condition.type, condition.status, condition.reason) == (
                "PodScheduled",
                "False",
                "Unschedulable",
            )
            assert condition.message == (
                "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
                "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
            )
            assert world.reasons("big") == ["FailedScheduling"]
            assert world.live.queue.where("default/big") == "unschedulable"

    run(test())


def test_however_many_pods_fail_few_conditions_are_written_at_a_time() -> None:
    async def test() -> None:
        async with running(make_world(nodes(1))) as world:
            patch_status, go_on, under_way = world.patch_status, asyncio.Event(), 0

            async def slow(pod: Pod, **what: Any) -> None:
                nonlocal under_way
                under_way += 1
                await go_on.wait()
                under_way -= 1
                await patch_status(pod, **what)

            world.patch_status = slow  # type: ignore[method-assign]
            world.add(*(make_pod(f"huge{i}").requests(cpu=100) for i in range(30)), make_pod("small"))
            await world.until(lambda: world.node_of("small") != "")
            assert 0 < under_way < 10
            go_on.set()
            await world.until(lambda: len(world.conditions) == 30)

    run(test())


def test_a_preemptor_waits_for_its_victims_and_then_gets_their_node() -> None:
    async def test() -> None:
        async with running(make_world(nodes(1, cpu=2))) as world:
            world.add(*(make_pod(f"low{i}").requests(cpu=1).on_node("n0") for i in range(2)))
            world.add(make_pod("high").requests(cpu=2).priority(10))
            await world.until(lambda: world.node_of("high") == "n0")
            assert sorted(world.evicted) == ["default/low0", "default/low1"]
            assert world.nominated[0] == ("default/high", "n0")
            assert world.reasons("low0") == ["Preempted"]
            assert world.conditions["default/low0"].reason == "PreemptionByScheduler"

    run(test())


def test_a_pod_deleted_while_it_is_being_bound_leaves_nothing_behind() -> None:
    async def test() -> None:
        async with running(make_world(nodes(1))) as world:

            async def delete_it(pod: Pod) -> None:
                world.remove(pod.key)
                raise ConnectionError("pods not found")

            world.before_bind = delete_it
            world.add(make_pod("gone").requests(cpu=1))
            await world.until(lambda: bool(world.bind_calls))
            await asyncio.sleep(0.05)
            cluster = world.live.core.cluster
            assert not cluster.assumed and not cluster.pods
            assert cluster.nodes.requested("cpu").tolist() == [0]
            assert world.live.queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}
            assert world.live.queue.in_flight == 0

    run(test())


def test_a_failed_bind_is_taken_back_and_repeated() -> None:
    async def test() -> None:
        async with running(make_world(nodes(1))) as world:

            async def fail_twice(pod: Pod) -> None:
                if len(world.bind_calls) <= 2:
                    raise ConnectionError("connection reset")

            world.before_bind = fail_twice
            world.add(make_pod("p").requests(cpu=1))
            await world.until(lambda: world.node_of("p") == "n0", 6)
            assert len(world.bind_calls) == 3
            assert world.conditions["default/p"].reason == "SchedulerError"
            assert world.live.core.cluster.nodes.requested("cpu").tolist() == [1000]

    run(test())


class Trail(ReservePlugin, PermitPlugin, PreBindPlugin):
    """Notes what it is asked, and fails where the pod's label says."""

    trail: list[str] = []  # noqa: RUF012 - set anew by the fixture

    def _at(self, point: str, pod: Pod) -> Status | None:
        self.trail.append(point)
        fails = pod.labels.get("fails-at") == point
        self_healing = self.trail.count(point) > 1
        return error("the disk is on fire") if fails and not self_healing else None

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return self._at("reserve", pod)

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.trail.append("unreserve")

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return self._at("permit", pod)

    def pre_bind_preflight(self, state: CycleState, pod: Pod, node_name: str) -> Preflight:
        return Preflight(self._at("preflight", pod))

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return self._at("prebind", pod)


@pytest.fixture(autouse=True)
def new_trail() -> None:
    Trail.trail = []


@pytest.mark.parametrize("point", ["reserve", "permit", "preflight", "prebind"])
def test_a_failure_at_any_point_is_taken_back_and_the_pod_tried_again(point: str) -> None:
    async def test() -> None:
        async with running(make_world(nodes(1), plugins=[Trail])) as world:
            world.add(make_pod("p").requests(cpu=1).labels({"fails-at": point}))
            await world.until(lambda: world.node_of("p") == "n0", 6)
            order = ["reserve", "permit", "preflight", "prebind"]
            failed = order[: order.index(point) + 1]
            assert Trail.trail == [*failed, "unreserve", *order]
            assert world.live.core.cluster.nodes.requested("cpu").tolist() == [1000]

    run(test())


class Late(PreBindPlugin):
    """Changes its mind once the pod is on its way."""

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return unschedulable("no seats left", "the doors are closed")


def test_a_rejection_on_the_way_speaks_of_no_nodes_and_needs_no_event_to_be_repeated() -> None:
    async def test() -> None:
        async with running(make_world(nodes(2), plugins=[Late])) as world:
            world.add(make_pod("p").requests(cpu=1))
            await world.until(lambda: "default/p" in world.conditions)
            condition = world.conditions["default/p"]
            assert condition.reason == "Unschedulable"
            assert condition.message == "no seats left, the doors are closed"
            await world.until(lambda: world.live.queue.where("default/p") == "backoff")

    run(test())


class Flight(PreBindPlugin):
    """Says of its flight what a test wants it to."""

    says: Status | None = None

    def pre_bind_preflight(self, state: CycleState, pod: Pod, node_name: str) -> Preflight:
        return Preflight(self.says)

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None


UNSUPPORTED = (
    'PreBindPreFlight Flight returned "Unschedulable", which is unsupported. '
    "It is supposed to return Success, Skip, or Error status"
)


@pytest.mark.parametrize(
    ("says", "message"),
    [
        (None, ""),
        (Status(Code.SUCCESS), ""),
        (Status(Code.SKIP), ""),
        (error("engine on fire"), 'running PreBindPreFlight "Flight": engine on fire'),
        (unschedulable("no seats left"), UNSUPPORTED),
    ],
)
def test_what_a_flight_may_be_said_to_be(says: Status | None, message: str) -> None:
    async def test() -> None:
        Flight.says = says
        async with running(make_world(nodes(1), plugins=[Flight])) as world:
            world.add(make_pod("p").requests(cpu=1))
            await world.until(lambda: world.node_of("p") != "" or "default/p" in world.conditions)
            condition = world.conditions.get("default/p")
            assert ("" if condition is None else condition.message) == message

    run(test())


class Timekeeper(Observer):
    """Notes which points were timed, and how they ended."""

    def __init__(self) -> None:
        self.points: list[tuple[str, str, str]] = []

    def point(self, profile: str, point: str, status: str, seconds: float) -> None:
        assert seconds >= 0
        self.points.append((profile, point, status))


def test_the_points_from_reserve_on_are_timed() -> None:
    async def test() -> None:
        async with running(make_world(nodes(1), plugins=[Trail])) as world:
            timekeeper = Timekeeper()
            world.live.observer = timekeeper
            world.add(make_pod("p").labels({"fails-at": "prebind"}))
            await world.until(lambda: world.node_of("p") == "n0", 6)
            first = ["Reserve", "Permit", "PreBind"]
            assert [point for _, point, _ in timekeeper.points] == [*first, *first, "Bind"]
            assert [status for _, _, status in timekeeper.points][2:4] == ["Error", "Success"]

    run(test())


class Gate(PermitPlugin):
    """Holds every pod back for a while."""

    timeout = 60.0

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait | None:
        return Wait(self.timeout)


class ShortGate(Gate):
    timeout = 0.05


def waiting_pods(world: World) -> list[str]:
    return [waiting.pod.name for waiting in world.live.core.host.waiting]


def test_a_waiting_pod_is_bound_once_it_is_allowed() -> None:
    async def test() -> None:
        async with running(make_world(nodes(1), plugins=[Gate])) as world:
            world.add(make_pod("p").requests(cpu=1))
            await world.until(lambda: waiting_pods(world) == ["p"])
            assert world.live.core.cluster.nodes.requested("cpu").tolist() == [1000]
            await world.until(lambda: ("default/p", "n0") in world.nominated)
            assert not world.bind_calls
            for waiting in world.live.core.host.waiting:
                waiting.allow("Gate")
            await world.until(lambda: world.node_of("p") == "n0")
            assert not waiting_pods(world)

    run(test())


def test_a_waiting_pod_is_rejected_when_its_time_is_up() -> None:
    async def test() -> None:
        async with running(make_world(nodes(1), plugins=[ShortGate])) as world:
            world.add(make_pod("p").requests(cpu=1))
            await world.until(lambda: "default/p" in world.conditions)
            assert world.conditions["default/p"].message == (
                "0/1 nodes are available: 1 rejected due to timeout after waiting 50ms at plugin ShortGate."
            )
            assert not world.bind_calls

    run(test())


def test_a_waiting_pod_makes_way_without_being_deleted() -> None:
    async def test() -> None:
        async with running(make_world(nodes(1, cpu=1), plugins=[Gate])) as world:
            world.add(make_pod("low").requests(cpu=1))
            await world.until(lambda: waiting_pods(world) == ["low"])
            world.add(make_pod("high").requests(cpu=1).priority(10))
            await world.until(lambda: waiting_pods(world) == ["high"])
            assert world.evicted == []
            assert world.reasons("low")[0] == "Preempted"
            condition = world.conditions["default/low"]
            assert condition.reason == "SchedulerError"
            assert condition.message == "waiting on permit for pod: preempted"

    run(test())


class RejectsAtReserve(ReservePlugin):
    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return unschedulable("no seats left")

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        raise RuntimeError("never mind")


def test_a_rejection_at_reserve_counts_one_node_and_a_failing_unreserve_harms_nothing() -> None:
    async def test() -> None:
        async with running(make_world(nodes(3), plugins=[RejectsAtReserve])) as world:
            world.add(make_pod("p"))
            await world.until(lambda: "default/p" in world.conditions)
            assert world.conditions["default/p"].message == "0/1 nodes are available: 1 no seats left."
            assert not world.live.core.cluster.assumed

    run(test())


def test_an_unexpected_failure_of_one_cycle_does_not_stop_the_others() -> None:
    async def test() -> None:
        async with running(make_world(nodes(1))) as world:
            decide = world.live.core.decide
            failures: list[str] = []

            def sometimes(pod: Pod, attempt: int = 0) -> Any:
                if pod.name == "bad" and not failures:
                    failures.append(pod.name)
                    raise RuntimeError("nobody thought of that")
                return decide(pod, attempt)

            world.live.core.decide = sometimes  # type: ignore[method-assign]
            world.add(make_pod("bad"), make_pod("good"))
            await world.until(lambda: world.node_of("good") == "n0")
            await world.until(lambda: world.node_of("bad") == "n0", 6)

    run(test())


def test_a_pod_that_is_being_deleted_is_not_scheduled() -> None:
    async def test() -> None:
        async with running(make_world(nodes(1))) as world:
            world.add(renamed(make_pod("leaving").build(), deleted=1.0))
            await world.until(lambda: bool(world.events))
            assert world.events[0].note == "skip schedule deleting pod: default/leaving"
            await asyncio.sleep(0.01)
            assert not world.bind_calls
            assert world.live.queue.in_flight == 0

    run(test())
