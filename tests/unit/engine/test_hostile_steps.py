"""A plugin that misbehaves on a pod's way to its node sends that pod back, and nothing of it stays behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import pytest

from stowplan.cluster import NodeRow
from stowplan.framework import (
    BindPlugin,
    Code,
    CycleState,
    FilterPlugin,
    PermitPlugin,
    PreBindPlugin,
    Preflight,
    ReservePlugin,
    Status,
)
from stowplan.objects import Pod
from stowplan.testing.builders import make_node, make_pod
from stowplan.testing.deciding import cluster_of, scheduler
from tests.unit.engine.world import make_world, running

Answer: TypeAlias = Callable[[], Any]

STEPS = ("Reserve", "Permit", "PreBindPreFlight", "PreBind", "Bind")
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [{name: Misbehaves}]}
    bind: {disabled: [{name: "*"}], enabled: [{name: Misbehaves}, {name: DefaultBinder}]}
"""


class Strange(BaseException):
    """Not even an Exception."""


def raises(problem: BaseException) -> Answer:
    def answer() -> None:
        raise problem

    return answer


def says(answer: Any) -> Answer:
    return lambda: answer


ANSWERS: dict[str, Answer] = {
    "raises": raises(RuntimeError("the disk is on fire")),
    "raises CancelledError": raises(asyncio.CancelledError()),
    "raises what is no Exception": raises(Strange("the disk is on fire")),
    "a text": says("no"),
    "no": says(False),
    "no reasons": says(Status(Code.UNSCHEDULABLE, None)),  # type: ignore[arg-type]
    "reasons that are no texts": says(Status(Code.ERROR, (1,))),  # type: ignore[arg-type]
    "a reason that is a list": says(Status(Code.UNSCHEDULABLE, (["no"],))),  # type: ignore[arg-type]
    "a number for a code": says(Status(99)),  # type: ignore[arg-type]
    "no plugin's name": says(Status(Code.UNSCHEDULABLE, ("no",), 7)),  # type: ignore[arg-type]
}


class Misbehaves(ReservePlugin, PermitPlugin, PreBindPlugin, BindPlugin):
    """Gives its answer at one step, for the pod called bad."""

    step: str
    answer: Answer
    reserved: set[str]

    def _answer(self, step: str, pod: Pod) -> Any:
        return self.answer() if step == self.step and pod.name == "bad" else None

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        self.reserved.add(pod.name)
        return self._answer("Reserve", pod)

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.reserved.discard(pod.name)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return self._answer("Permit", pod)

    def pre_bind_preflight(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        answer = self._answer("PreBindPreFlight", pod)
        return Preflight() if answer is None else answer

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        return self._answer("PreBind", pod)

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        answer = self._answer("Bind", pod)
        return Status(Code.SKIP) if answer is None else answer


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test, debug=False)


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("step", STEPS)
def test_its_pod_is_told_who_failed_and_the_others_get_their_nodes(step: str, answer: str) -> None:
    Misbehaves.step, Misbehaves.answer, Misbehaves.reserved = step, staticmethod(ANSWERS[answer]), set()

    async def test() -> None:
        node = make_node("n").capacity(cpu=4, memory="8Gi", pods=20).build()
        async with running(make_world([node], plugins=[Misbehaves], config=CONFIG)) as world:
            world.add(make_pod("bad").requests(cpu=1), make_pod("good").requests(cpu=1))
            await world.until(lambda: "default/bad" in world.conditions and bool(world.node_of("good")))
            condition = world.conditions["default/bad"]
            assert condition.reason == "SchedulerError"
            a_plugin = "" if step == "PreBindPreFlight" else "plugin "  # as kube-scheduler says it
            assert condition.message.startswith(f'running {step} {a_plugin}"Misbehaves": ')
            assert world.live.queue.get("default/bad") is not None or world.live.queue.in_flight
            await world.until(lambda: not world.live.core.cluster.assumed)
            assert world.live.core.cluster.nodes.requested("cpu").tolist() == [1000]
        assert Misbehaves.reserved == {"good"}

    run(test())


def test_a_plugin_that_asks_a_cancelled_task_for_its_result_does_not_end_the_loop() -> None:
    class Asks(FilterPlugin):
        def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
            if pod.name == "bad":
                asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                asked.cancel()
                asked.result()
            return None

    async def test() -> None:
        async with running(make_world([make_node("n").capacity(pods=5).build()], plugins=[Asks])) as world:
            world.add(make_pod("bad"), make_pod("good"))
            await world.until(lambda: bool(world.node_of("good")))
        assert world.conditions["default/bad"].message == 'running "Asks" filter plugin: CancelledError: '

    run(test())


def test_a_plugin_that_cannot_be_closed_does_not_keep_the_others_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    closed = []

    class Stuck(FilterPlugin):
        def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
            return None

        def close(self) -> None:
            closed.append(self.name)
            raise OSError("still in use")

    class AlsoStuck(Stuck):
        pass

    scheduler(cluster_of(), plugins=[Stuck, AlsoStuck]).close()
    assert closed == ["Stuck", "AlsoStuck"]
    assert caplog.messages == [
        f"plugin {name} of profile default-scheduler cannot be closed" for name in closed
    ]


def test_what_ends_the_process_is_no_failure_of_the_plugin() -> None:
    class Interrupted(ReservePlugin):
        def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
            raise KeyboardInterrupt

        def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None: ...

    async def test() -> None:
        world = make_world([make_node("n").capacity(pods=5).build()], plugins=[Interrupted])
        world.add(make_pod("p"))
        queued = world.live.queue.pop()
        assert queued is not None
        with pytest.raises(KeyboardInterrupt):
            world.live.schedule(queued)

    run(test())
