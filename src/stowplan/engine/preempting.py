"""Carries out a preemption: the victims go, one after the others, while scheduling goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from stowplan.engine.observer import Observer
from stowplan.engine.planner import Planner, PodCondition
from stowplan.framework.failure import pass_on_exit
from stowplan.framework.handle import Host
from stowplan.framework.profile import Profile
from stowplan.objects import Pod

log = logging.getLogger(__name__)

IN_MEMORY = " (in kube-scheduler memory)."


class Evictions:
    """Removes victims. The preemptor is kept out of the queue meanwhile, by the plugin that chose them."""

    def __init__(self, host: Host, planner: Planner, observer: Observer) -> None:
        self._host = host
        self._planner = planner
        self._observer = observer
        self._binding: dict[str, asyncio.Task[None]] = {}
        self._going: dict[str, asyncio.Future[None]] = {}
        """Victims that are being removed, by uid."""

    @property
    def busy(self) -> bool:
        """Whether victims are being removed."""
        return bool(self._going)

    def binding_started(self, pod: Pod, task: asyncio.Task[None] | None) -> None:
        """A pod is on its way to its node, in this task; as a victim it can still be stopped."""
        if task is not None:
            self._binding[pod.uid] = task

    def binding_sent(self, pod: Pod) -> None:
        """From now on the pod can only be deleted."""
        self._binding.pop(pod.uid, None)

    def begin(
        self, profile: Profile, pod: Pod, node_name: str, victims: tuple[Pod, ...], retry: Callable[[], None]
    ) -> None:
        """Has the victims removed beside the loop; `retry` is called when that failed. The plugins know it
        from this moment on: tried again before its victims go, the pod would find others."""
        staying = tuple(victim for victim in victims if not victim.terminating)
        if staying:
            self._observer.preempted(len(victims))
            self._tell_plugins(profile, pod, staying)
            self._host.later(self._carry_out(profile, pod, node_name, staying, retry))

    async def _carry_out(
        self, profile: Profile, pod: Pod, node_name: str, victims: tuple[Pod, ...], retry: Callable[[], None]
    ) -> None:
        """All victims but the last at once, then the last."""
        started = self._host.now()
        result = "success"
        try:
            await self._withdraw_promises(pod, node_name)
            *others, last = victims
            await asyncio.gather(*(self._remove(profile, pod, node_name, victim) for victim in others))
            await self._remove(profile, pod, node_name, last)
        except Exception as problem:
            log.warning("preemption for %s on %s failed: %s", pod.key, node_name, problem)
            result = "error"
        self._tell_plugins(profile, pod, ())
        self._observer.preemption_carried_out(result, self._host.now() - started)
        if result == "error":
            retry()

    def _tell_plugins(self, profile: Profile, pod: Pod, victims: tuple[Pod, ...]) -> None:
        for plugin in profile.post_filters:
            try:
                plugin.making_room(pod, victims)
            except BaseException as problem:
                pass_on_exit(problem)
                log.exception("plugin %s failed to hear of the preemption for %s", plugin.name, pod.key)

    async def _withdraw_promises(self, pod: Pod, node_name: str) -> None:
        """Less important pods that were promised the node must look again."""
        nominations = self._host.cluster.nominations
        for other in list(nominations.on(node_name)):
            if other.spec.priority < pod.spec.priority and other.uid != pod.uid:
                if nominations.node_of(other.uid) != node_name:
                    continue  # it has found another node while the ones before it were told
                nominations.remove(other.uid)
                try:
                    await self._planner.patch_status(other, nominated_node="")
                except Exception as problem:
                    log.warning("cannot withdraw the nomination of %s: %s", other.key, problem)

    async def _remove(self, profile: Profile, pod: Pod, node_name: str, victim: Pod) -> None:
        """Removes it, or waits for it to be removed: who needs the room behind another preemptor is told to
        remove that one's victims too."""
        going = self._going.get(victim.uid)
        if going is None:
            going = asyncio.ensure_future(self._evict(profile, pod, node_name, victim))
            self._going[victim.uid] = going
            going.add_done_callback(lambda _: self._going.pop(victim.uid))
        await asyncio.shield(going)

    async def _evict(self, profile: Profile, pod: Pod, node_name: str, victim: Pod) -> None:
        known = self._host.cluster.pods.get(victim.uid)
        if known is None or known.terminating:
            return
        if self._stop_in_memory(victim):
            self._tell(profile, pod, node_name, victim, IN_MEMORY)
            return
        words = f"{profile.name}: preempting to accommodate a higher priority pod"
        condition = PodCondition("DisruptionTarget", "True", "PreemptionByScheduler", words)
        await self._planner.patch_status(known, condition=condition)
        await self._planner.evict(known)
        self._tell(profile, pod, node_name, victim, "")

    def _stop_in_memory(self, victim: Pod) -> bool:
        """A victim that is not bound yet needs no deletion."""
        waiting = self._host.waiting.get(victim.uid)
        if waiting is not None and waiting.preempt("preempted"):
            return True
        task = self._binding.pop(victim.uid, None)
        return task is not None and task.cancel()

    def _tell(self, profile: Profile, pod: Pod, node_name: str, victim: Pod, suffix: str) -> None:
        self._planner.record(
            victim,
            reporter=profile.name,
            type="Normal",
            reason="Preempted",
            action="Preempting",
            note=f"Preempted by pod {pod.uid} on node {node_name}{suffix}",
            related=pod,
        )
