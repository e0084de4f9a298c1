"""The loop: takes the next pod, decides it, and starts it on its way to the node.

    queue → decide → assume → reserve → permit → (a task each) wait → pre-bind → bind → post-bind

Cycles are synchronous and one at a time; they run in slices, between which informers are read and
bindings go on. Whatever fails takes everything back in reverse order and returns the pod to the queue:
no pod is lost, and none counts on a node where it will not be.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from stowplan.engine.binding import plan_pre_bind, run_bind, run_post_bind, run_pre_bind
from stowplan.engine.conditions import ConditionWriter, PodsNow
from stowplan.engine.failure import Failure, FailureHandler
from stowplan.engine.observer import Observer
from stowplan.engine.planner import Planner
from stowplan.engine.preempting import Evictions
from stowplan.engine.reserving import run_permit, run_reserve, run_unreserve
from stowplan.engine.scheduler import Scheduler
from stowplan.framework.contract import PODS_TO_ACTIVATE
from stowplan.framework.decision import Decision
from stowplan.framework.profile import Profile
from stowplan.framework.status import Code, Status, error
from stowplan.framework.waiting import WaitingPod
from stowplan.objects import Pod
from stowplan.queue.queue import SchedulingQueue
from stowplan.queue.queued import QueuedPod

log = logging.getLogger(__name__)

SLICE = 0.004
"""How long cycles may run, in seconds, before the rest of the process gets its turn."""
MAX_BINDING = 512
"""With so many pods being bound the API server is behind: deciding further ahead would only go stale."""

_PATIENCE = 10.0
"""How long what is under way may take when the process has to end, in seconds."""


@dataclass
class Journey:
    """A pod that has a node and is not bound yet."""

    queued: QueuedPod
    profile: Profile
    decision: Decision
    placed: Pod
    node_name: str
    started: float
    permitted: bool = False
    """Whether nothing but binding is left to do."""
    settled: asyncio.Future[Status | None] | None = field(default=None)
    timers: list[asyncio.TimerHandle] = field(default_factory=list)


class LiveScheduler:
    """Schedules the pods of the queue for as long as it runs."""

    def __init__(
        self,
        core: Scheduler,
        queue: SchedulingQueue,
        planner: Planner,
        pods: PodsNow,
        observer: Observer | None = None,
    ) -> None:
        self.core = core
        self.queue = queue
        self.planner = planner
        self.observer = observer or Observer()
        self.evictions = Evictions(core.host, planner, self.observer)
        self.conditions = ConditionWriter(planner, pods, core.cluster.nominations, self.spawn)
        self.failures = FailureHandler(core.host, queue, planner, pods, self.conditions)
        self._tasks: set[asyncio.Task[None]] = set()
        self._binding = 0
        self._held_up = 0
        self._wake = asyncio.Event()
        self._stopping = self._over = False
        core.host.later = self.spawn

    # The loop

    async def run(self) -> None:
        """Runs until `stop`; pods on their way are given the time to arrive."""
        try:
            while not self._stopping:
                self.queue.tick()
                if self._run_slice():
                    await asyncio.sleep(0)
                else:
                    await self._sleep_until_needed()
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    while self._tasks:  # what ends may leave something to be written
                        await asyncio.wait(self._tasks)
        finally:
            self._over = True

    def stop(self) -> None:
        self._stopping = True
        self.wake()

    def wake(self) -> None:
        """Something changed that may put a pod into the queue."""
        self._wake.set()

    @property
    def binding(self) -> int:
        """How many pods are on their way to their nodes."""
        return self._binding

    def _run_slice(self) -> bool:
        """Runs cycles for a little while; whether there may be more to do at once."""
        until = time.perf_counter() + SLICE
        while self._binding - self._held_up < MAX_BINDING:
            queued = self.queue.pop()
            if queued is None:
                return False
            self.schedule(queued)
            if time.perf_counter() > until:
                return True
        return False

    async def _sleep_until_needed(self) -> None:
        self._wake.clear()
        timer = asyncio.get_running_loop().call_later(max(self.queue.next_tick(), 0.0), self._wake.set)
        await self._wake.wait()
        timer.cancel()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Has something done beside the loop; a failure is logged and harms nothing else."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("unexpected failure", exc_info=problem)

    # The scheduling cycle

    def schedule(self, queued: QueuedPod) -> None:
        """One pod's cycle. Nothing that goes wrong with it reaches the loop."""
        pod = queued.pod
        try:
            self._schedule(queued)
        except Exception as problem:
            log.exception("cycle of %s failed", pod.key)
            if pod.uid in self.core.cluster.assumed:
                self.core.cluster.forget(pod.uid)
            self.failures.handle(queued, Failure.of_error(f"{type(problem).__name__}: {problem}"))

    def _schedule(self, queued: QueuedPod) -> None:
        pod = queued.pod
        profile = self.core.profiles.get(pod.spec.scheduler_name)
        if profile is None or pod.uid in self.core.cluster.pods:
            self.queue.done(pod.uid)
            return
        if pod.terminating:
            self.failures.tell(pod, f"skip schedule deleting pod: {pod.key}")
            self.queue.done(pod.uid)
            return
        started = self.core.host.now()
        decision = self.core.decide(pod, queued.attempts)
        self.observer.decided(self.core.host.now() - started)
        if decision.node_name is None:
            self._not_placed(queued, profile, decision, started)
        else:
            self._placed(queued, profile, decision, decision.node_name, started)

    def _not_placed(self, queued: QueuedPod, profile: Profile, decision: Decision, started: float) -> None:
        failure = Failure.of_decision(decision)
        self.observer.attempted(profile.name, failure.result, self.core.host.now() - started)
        promised = decision.nominated_node
        if promised and decision.victims:
            pod = queued.pod
            self.evictions.begin(profile, pod, promised, decision.victims, lambda: self._try_again([pod]))
        self.failures.handle(queued, failure)

    def _try_again(self, pods: Iterable[Pod]) -> None:
        self.queue.activate(pods)
        self.wake()

    def _placed(
        self, queued: QueuedPod, profile: Profile, decision: Decision, node_name: str, started: float
    ) -> None:
        pod = queued.pod
        cluster = self.core.cluster
        placed = cluster.assume(pod, node_name)
        cluster.nominations.remove(pod.uid)
        journey = Journey(queued, profile, decision, placed, node_name, started)
        status = self._reserve(journey) or self._permit(journey)
        if status is None:
            self._binding += 1
            self.spawn(self._bind(journey))
            self._activate_left(journey)
            return
        self._take_back(journey)
        failure = Failure.at_node(status)
        self.observer.attempted(profile.name, failure.result, self.core.host.now() - started)
        self.failures.handle(queued, failure)

    def _reserve(self, journey: Journey) -> Status | None:
        began = self.core.host.now()
        status = run_reserve(journey.profile, journey.decision.state, journey.queued.pod, journey.node_name)
        self._timed(journey.profile, "Reserve", status, self.core.host.now() - began)
        return status

    def _permit(self, journey: Journey) -> Status | None:
        profile = journey.profile
        if not profile.permits:
            return None
        began = self.core.host.now()
        answer = run_permit(profile, journey.decision.state, journey.queued.pod, journey.node_name)
        self._timed(profile, "Permit", answer.status, self.core.host.now() - began)
        if answer.status is None and answer.waits:
            self._hold_back(journey, answer.waits)
        return answer.status

    def _activate_left(self, journey: Journey) -> None:
        """Tries again the pods that plugins left for that."""
        pods = journey.decision.state.pop(PODS_TO_ACTIVATE, None)
        if pods:
            try:
                self._try_again(pods.values())
            except Exception:
                log.exception("what was left to be activated with %s is not pods by uid", journey.placed.key)

    def _hold_back(self, journey: Journey, waits: dict[str, float]) -> None:
        """The pod waits for its Permit plugins, each with a timer of its own."""
        loop = asyncio.get_running_loop()
        waiting = WaitingPod(journey.queued.pod, journey.node_name, waits)
        settled: asyncio.Future[Status | None] = loop.create_future()

        def settle(verdict: Status | None) -> None:
            if not settled.done():
                settled.set_result(verdict)

        waiting.when_settled(settle)
        journey.timers = [
            loop.call_later(seconds, waiting.time_out, plugin) for plugin, seconds in waiting.timeouts.items()
        ]
        journey.settled = settled
        self.core.host.waiting.add(waiting)

    # The binding cycle

    async def _bind(self, journey: Journey) -> None:
        pod = journey.queued.pod
        self.evictions.binding_started(pod, asyncio.current_task())
        try:
            status = await self._go_to_node(journey)
        except asyncio.CancelledError:
            if self._over:  # it is not the pod that has to make way: the process ends
                raise
            status = Failure.of_error("preempted while it was on its way to its node").status
        except Exception as problem:
            log.exception("binding of %s failed", pod.key)
            status = Failure.of_error(f"{type(problem).__name__}: {problem}").status
        finally:
            self._binding -= 1
            self.evictions.binding_sent(pod)
            for timer in journey.timers:
                timer.cancel()
            self.core.host.waiting.remove(pod.uid)
            self.wake()  # PostBind may take long, and holds up nobody
        if status is None:
            await self._arrived(journey)
        else:
            self._turned_back(journey, status)
        self.wake()

    async def _go_to_node(self, journey: Journey) -> Status | None:
        """None when the pod is bound."""
        pod, state, name = journey.queued.pod, journey.decision.state, journey.node_name
        plan = plan_pre_bind(journey.profile, state, pod, name)
        if plan.status is not None:
            return plan.status
        await self.conditions.settle(pod)
        if plan.groups or journey.settled is not None:
            await self._announce(pod, name)
        if journey.settled is not None:
            started = self.core.host.now()
            with self._holding_up_nobody():
                status = await journey.settled
            self.core.host.waiting.remove(pod.uid)
            result = "allowed" if status is None else status.code.label
            self.observer.permit_waited(result, self.core.host.now() - started)
            if status is not None:
                return status if status.rejected else error(f"waiting on permit for pod: {status.message}")
        journey.permitted = True
        self.queue.done(pod.uid)
        if plan.groups:
            began = self.core.host.now()
            with self._holding_up_nobody():
                status = await run_pre_bind(plan, state, pod, name)
            self._timed(journey.profile, "PreBind", status, self.core.host.now() - began)
            if status is not None:
                return status
        self.evictions.binding_sent(pod)
        began = self.core.host.now()
        status = await run_bind(journey.profile, state, pod, name)
        self._timed(journey.profile, "Bind", status, self.core.host.now() - began)
        return status

    @contextmanager
    def _holding_up_nobody(self) -> Iterator[None]:
        """Pods that wait for other pods, for volumes or devices say nothing of how the API server keeps up;
        some of them may even wait for pods that are still to be decided."""
        self._held_up += 1
        self.wake()
        try:
            yield
        finally:
            self._held_up -= 1

    def _timed(self, profile: Profile, point: str, status: Status | None, seconds: float) -> None:
        self.observer.point(
            profile.name, point, (Code.SUCCESS if status is None else status.code).label, seconds
        )

    async def _announce(self, pod: Pod, node_name: str) -> None:
        """Lets the world know where the pod is expected, because getting there may take a while."""
        try:
            await self.planner.patch_status(pod, nominated_node=node_name)
        except Exception as problem:
            log.warning("cannot write the nominated node of %s: %s", pod.key, problem)

    async def _arrived(self, journey: Journey) -> None:
        queued, profile, pod = journey.queued, journey.profile, journey.queued.pod
        now = self.core.host.now()
        self.planner.record(
            pod,
            reporter=profile.name,
            type="Normal",
            reason="Scheduled",
            action="Binding",
            note=f"Successfully assigned {pod.key} to {journey.node_name}",
        )
        self.observer.attempted(profile.name, "scheduled", now - journey.started)
        self.observer.bound(
            profile.name, queued.attempts, now - queued.initial_attempt, after_flush=queued.after_flush
        )
        if profile.post_binds:
            for words in await run_post_bind(profile, journey.decision.state, pod, journey.node_name):
                log.error("%s: %s", pod.key, words)
        self._activate_left(journey)

    def _turned_back(self, journey: Journey, status: Status) -> None:
        """The pod did not get there: everything is taken back, and others may have the room now."""
        self._take_back(journey)
        failure = Failure.on_the_way(status) if journey.permitted else Failure.at_node(status)
        self.observer.attempted(journey.profile.name, failure.result, self.core.host.now() - journey.started)
        self.failures.handle(journey.queued, failure)
        self.failures.room_was_freed(
            journey.placed, but_not_for=journey.queued.pod if status.rejected else None
        )

    def _take_back(self, journey: Journey) -> None:
        pod = journey.queued.pod
        for words in run_unreserve(journey.profile, journey.decision.state, pod, journey.node_name):
            log.error("%s: %s", pod.key, words)
        if pod.uid in self.core.cluster.assumed:
            self.core.cluster.forget(pod.uid)
