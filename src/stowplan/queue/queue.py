"""The scheduling queue: every pending pod is in exactly one place.

add ──> gated ──> active ──pop──> in flight ──> bound, or
                    ^  ^                          │ rejected
                    │  └── backing off <──────────┤ (after an error, or when an event came meanwhile)
                    └───── unschedulable <────────┘ until an event that helps, or five minutes
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from stowplan.cluster.nominations import Nominations
from stowplan.framework.events import FORCE_ACTIVATE, UNSCHEDULABLE_TIMEOUT, ClusterEvent, Resource
from stowplan.framework.profile import Profile
from stowplan.objects import Pod
from stowplan.queue.asking import let_in, order_by, refuses
from stowplan.queue.backoff import Backoff
from stowplan.queue.heap import PodHeap
from stowplan.queue.hints import Hints, Worth, judge
from stowplan.queue.inflight import InFlight
from stowplan.queue.queued import NOBODY, QueuedPod
from stowplan.queue.unschedulable import Alike, UnschedulablePods
from stowplan.queue.updates import pod_update_events

FLUSH_EVERY = 30.0
POD_ADD = "UnschedulablePodAdd"
POD_UPDATE = "UnschedulablePodUpdate"
ATTEMPT_FAILED = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF = "PopFromBackoffQ"


def _look_away(place: str, reason: str) -> None:
    pass


class SchedulingQueue:
    """Pending pods of all profiles. Not for use by several threads.

    `arrived` is told whenever a pod comes to a place (active, backoff, unschedulable), and why.
    """

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        nominations: Nominations,
        now: Callable[[], float],
        *,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
        max_in_unschedulable: float = 300.0,
        arrived: Callable[[str, str], None] = _look_away,
    ) -> None:
        sorter = next(iter(profiles.values())).queue_sort[0]
        sort_key, sorted_by = order_by(sorter), f"QueueSort plugin {sorter.name}"
        self._now = now
        self._nominations = nominations
        self._pre_enqueue = {name: profile.pre_enqueue for name, profile in profiles.items()}
        self._gates = {
            name: {plugin.name: plugin for plugin in plugins} for name, plugins in self._pre_enqueue.items()
        }
        self._hints = {name: Hints(profile.plugins.values()) for name, profile in profiles.items()}
        self._interested: dict[ClusterEvent, frozenset[str]] = {}
        self._backoff = Backoff(initial_backoff, max_backoff)
        self._max_in_unschedulable = max_in_unschedulable
        self._arrived = arrived
        self._active = PodHeap(sort_key, sorted_by)
        self._backing_off = PodHeap(lambda queued: (self._backoff.ends(queued), sort_key(queued)), sorted_by)
        self._after_error = PodHeap(self._backoff.ends)
        self._heaps = (self._active, self._backing_off, self._after_error)
        self._unschedulable = UnschedulablePods()
        self._in_flight = InFlight()
        self._next_flush = now() + FLUSH_EVERY

    # Pods as the API server has them

    def add(self, pod: Pod) -> None:
        """A new pending pod. One that is here already is updated."""
        known = self.get(pod.key)
        if known is not None or pod.uid in self._in_flight:
            self.update(known.pod if known is not None else None, pod)
        else:
            self._enter(pod, POD_ADD)

    def update(self, old: Pod | None, new: Pod) -> None:
        """A pending pod changed. One that nothing could be done for is tried again if that may help."""
        if new.uid in self._in_flight:
            for event in pod_update_events(old, new):
                self._in_flight.record(event, old, new)
            return
        queued = self.get(new.key)
        if queued is not None and queued.pod.uid != new.uid:
            self.delete(queued.pod)
            queued = None
        if queued is None:
            self._enter(new, POD_UPDATE)
            return
        queued.pod = new
        self._keep_nomination(old, new)
        for heap in self._heaps:
            if new.key in heap:
                heap.refresh(queued)
                return
        self._unschedulable.put(queued)
        for event in pod_update_events(old, new):
            if self._requeue(queued, self._worth(queued, event, old, new), event.label):
                return

    def delete(self, pod: Pod) -> None:
        """A pending pod is gone, or has a node."""
        self._nominations.remove(pod.uid)
        for heap in self._heaps:
            heap.remove(pod.key)
        self._unschedulable.remove(pod.key)

    # Decisions

    def pop(self) -> QueuedPod | None:
        """The next pod to decide. With nothing else to do, a pod that backs off comes early; one that
        failed by an error does not."""
        while True:
            queued = self._active.pop()
            if queued is None:
                queued = self._backing_off.pop()
                if queued is None:
                    return None
                self._arrived("active", POP_FROM_BACKOFF)
            queued.attempts += 1
            queued.unschedulable_plugins = queued.pending_plugins = NOBODY
            if self._in_flight.start(queued.pod.uid):
                return queued

    def add_unschedulable(
        self, queued: QueuedPod, plugins: frozenset[str], pending: frozenset[str] = NOBODY
    ) -> None:
        """A decided pod comes back without a node. Without plugins it was an error, and it is tried again
        after a while; otherwise when an event helps, which may have happened already."""
        if queued.key in self:
            self._in_flight.done(queued.pod.uid)
            return
        queued.unschedulable_plugins, queued.pending_plugins = plugins, pending
        if plugins or pending:
            queued.unschedulable_count += 1
            queued.consecutive_errors = 0
        else:
            queued.consecutive_errors += 1
        queued.timestamp = self._now()
        queued.flushed, queued.after_flush = 0.0, False
        worth = self._worth_by_now(queued)
        self._in_flight.done(queued.pod.uid)
        if not self._requeue(queued, worth, ATTEMPT_FAILED) and queued.key not in self._unschedulable:
            self._park(queued, ATTEMPT_FAILED)

    def done(self, uid: str) -> None:
        """A decided pod will not come back as it is."""
        self._in_flight.done(uid)

    # Events

    def move(
        self,
        event: ClusterEvent,
        old: Any,
        new: Any,
        but_not_for: Pod | None = None,
        *,
        up_to_priority: int | None = None,
    ) -> None:
        """Something happened: pods that it may help are tried again; all of them, or all but one, or those
        that are not more important than this."""
        wildcard = event.resource is Resource.WILDCARD
        plugins = NOBODY if wildcard else self._plugins_asking_for(event)
        if not plugins and not wildcard:
            return
        groups = self._unschedulable.groups() if wildcard else self._unschedulable.rejected_by(plugins)
        spared = "" if but_not_for is None else but_not_for.uid
        for alike in groups:
            kind = alike.kind
            if kind.gating_plugin and not wildcard and kind.gating_plugin not in plugins:
                continue
            if up_to_priority is None or kind.spec.priority <= up_to_priority:
                self._move_alike(alike, event, old, new, spared)
        self._in_flight.record(event, old, new)

    def _move_alike(self, alike: Alike, event: ClusterEvent, old: Any, new: Any, spared: str) -> None:
        """Asks once for all pods of a group, where that will do."""
        for_all: Worth | None = None
        if event.resource is not Resource.WILDCARD:
            hints = self._hints[alike.kind.spec.scheduler_name].for_event(event)
            registered, by_shape = hints.asked(alike.rejectors)
            if by_shape:
                for_all = judge(alike.example, registered, old, new)
                if for_all is Worth.NOTHING:
                    return
        for queued in self._with_open_gate(alike, event):
            if not spared or queued.pod.uid != spared:
                worth = self._worth(queued, event, old, new) if for_all is None else for_all
                self._requeue(queued, worth, event.label)

    def _with_open_gate(self, alike: Alike, event: ClusterEvent) -> list[QueuedPod]:
        """Without those of which the plugin that keeps them out says that it still does."""
        gate = self._gates[alike.kind.spec.scheduler_name].get(alike.kind.gating_plugin)
        if (
            gate is not None
            and event.resource is not Resource.WILDCARD
            and (keys := let_in(gate)) is not None
        ):
            self._unschedulable.let_in(keys)
            return list(alike.let_in.values())
        return list(alike.pods.values())

    def activate(self, pods: Iterable[Pod]) -> None:
        """These pods are tried again now, whatever kept them but PreEnqueue."""
        for pod in pods:
            parked = self._unschedulable.get(pod.key)
            if parked is not None and self._to_active(parked, FORCE_ACTIVATE.label):
                continue
            backing_off = self._backing_off.remove(pod.key) or self._after_error.remove(pod.key)
            if backing_off is not None:
                self._push_active(backing_off, FORCE_ACTIVATE.label)
            elif pod.uid in self._in_flight:
                self._in_flight.record(FORCE_ACTIVATE, None, pod)

    # Time

    def tick(self) -> None:
        """Pods whose time has come become active."""
        now = self._now()
        for heap in (self._backing_off, self._after_error):
            while (first := heap.peek()) is not None and not self._backoff.waiting(first, now):
                heap.pop()
                self._push_active(first, BACKOFF_COMPLETE)
        if now >= self._next_flush:
            self._next_flush = now + FLUSH_EVERY
            self._flush_leftovers(now)

    def next_tick(self) -> float:
        """In how many seconds `tick` will have something to do, if nothing happens before."""
        due = self._next_flush
        for heap in (self._backing_off, self._after_error):
            first = heap.peek()
            if first is not None:
                due = min(due, self._backoff.ends(first) + 1.0)
        return max(due - self._now(), 0.0)

    def _flush_leftovers(self, now: float) -> None:
        """Should a hint have missed what would help a pod, the pod waits for minutes, not forever."""
        leftovers = [
            queued
            for queued in self._unschedulable
            if now - max(queued.timestamp, queued.flushed) > self._max_in_unschedulable
        ]
        for queued in leftovers:
            queued.flushed, queued.after_flush = now, True
            self._requeue(queued, Worth.AFTER_BACKOFF, UNSCHEDULABLE_TIMEOUT.label)
        if leftovers:
            self._in_flight.record(UNSCHEDULABLE_TIMEOUT, None, None)

    # Looking

    def counts(self) -> dict[str, int]:
        """How many pods are where, by the names of the metric."""
        gated = self._unschedulable.gated
        return {
            "active": len(self._active),
            "backoff": len(self._backing_off) + len(self._after_error),
            "unschedulable": len(self._unschedulable) - gated,
            "gated": gated,
        }

    def where(self, key: str) -> str:
        """active, backoff, unschedulable or gated; "" for a pod that is not here (it may be in flight)."""
        if key in self._active:
            return "active"
        if key in self._backing_off or key in self._after_error:
            return "backoff"
        queued = self._unschedulable.get(key)
        return "" if queued is None else ("gated" if queued.gated else "unschedulable")

    def get(self, key: str) -> QueuedPod | None:
        """The pod of this namespace and name, unless it is not here or in flight."""
        for heap in self._heaps:
            queued = heap.get(key)
            if queued is not None:
                return queued
        return self._unschedulable.get(key)

    def pods(self) -> Iterator[QueuedPod]:
        """All pods that wait, for dumps."""
        return chain(*self._heaps, self._unschedulable)

    @property
    def in_flight(self) -> int:
        """How many pods are being decided or bound."""
        return len(self._in_flight)

    @property
    def recorded_events(self) -> int:
        """How many events are kept for the pods in flight."""
        return self._in_flight.event_count

    def in_flight_counts(self) -> dict[str, int]:
        """What is kept for the pods in flight, themselves among it, by the labels of the metric."""
        return self._in_flight.counts()

    def __contains__(self, key: object) -> bool:
        return key in self._unschedulable or any(key in heap for heap in self._heaps)

    def __len__(self) -> int:
        return sum(map(len, self._heaps)) + len(self._unschedulable)

    # Moving

    def _enter(self, pod: Pod, reason: str) -> None:
        queued = QueuedPod(pod, self._now())
        if self._to_active(queued, reason) and pod.status.nominated_node_name:
            self._nominations.add(pod, pod.status.nominated_node_name)

    def _requeue(self, queued: QueuedPod, worth: Worth, reason: str) -> bool:
        """Whether the pod left the unschedulable ones."""
        if worth is Worth.NOTHING:
            return False
        if worth is Worth.AFTER_BACKOFF and self._backoff.waiting(queued, self._now()):
            return self._to_backoff(queued, reason)
        return self._to_active(queued, reason)

    def _to_active(self, queued: QueuedPod, reason: str) -> bool:
        if self._kept_out(queued, reason):
            return False
        self._unschedulable.remove(queued.key)
        self._push_active(queued, reason)
        return True

    def _push_active(self, queued: QueuedPod, reason: str) -> None:
        queued.initial_attempt = queued.initial_attempt or self._now()
        self._active.push(queued)
        self._arrived("active", reason)

    def _to_backoff(self, queued: QueuedPod, reason: str) -> bool:
        if self._kept_out(queued, reason):
            return False
        self._unschedulable.remove(queued.key)
        (self._backing_off if queued.rejectors else self._after_error).push(queued)
        self._arrived("backoff", reason)
        return True

    def _park(self, queued: QueuedPod, reason: str) -> None:
        if queued.key not in self._unschedulable:
            self._arrived("unschedulable", reason)
        self._unschedulable.put(queued)

    def _kept_out(self, queued: QueuedPod, reason: str) -> bool:
        """Runs PreEnqueue, the plugin that kept the pod out before first. A pod that is kept out waits
        among the unschedulable ones."""
        plugins = self._pre_enqueue[queued.pod.spec.scheduler_name]
        if queued.gating_plugin:
            plugins = tuple(sorted(plugins, key=lambda plugin: plugin.name != queued.gating_plugin))
        for plugin in plugins:
            if refuses(plugin, queued.pod):
                queued.gating_plugin = plugin.name
                queued.unschedulable_plugins |= {plugin.name}
                queued.after_flush = False
                self._park(queued, reason)
                self._unschedulable.keep_out(queued.key)
                return True
        queued.gating_plugin = ""
        return False

    def _worth_by_now(self, queued: QueuedPod) -> Worth:
        """What happened while the pod was being decided may have helped it."""
        if not queued.rejectors:
            return Worth.AFTER_BACKOFF
        worth = Worth.NOTHING
        for event, old, new in self._in_flight.events_for(queued.pod.uid):
            worth = max(worth, self._worth(queued, event, old, new))
            if worth is Worth.AT_ONCE or (worth and not queued.pending_plugins):
                break
        return worth

    def _worth(self, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any) -> Worth:
        if not queued.rejectors:
            return Worth.AFTER_BACKOFF
        if event.resource is Resource.WILDCARD:
            about_another = isinstance(new, Pod) and new.uid != queued.pod.uid
            return Worth.NOTHING if about_another else Worth.AFTER_BACKOFF
        hints = self._hints[queued.pod.spec.scheduler_name].for_event(event)
        return judge(queued, hints.asked(queued.rejectors).registered, old, new)

    def _plugins_asking_for(self, event: ClusterEvent) -> frozenset[str]:
        known = self._interested.get(event)
        if known is None:
            known = NOBODY.union(*(hints.for_event(event).plugins for hints in self._hints.values()))
            self._interested[event] = known
        return known

    def _keep_nomination(self, old: Pod | None, new: Pod) -> None:
        """A nomination that only the queue knows of stays; one that was written or cleared counts."""
        before = old.status.nominated_node_name if old is not None else ""
        after = new.status.nominated_node_name
        known = self._nominations.node_of(new.uid)
        node = after or ("" if before else known)
        if known is not None:
            self._nominations.remove(new.uid)
        if node:
            self._nominations.add(new, node)
