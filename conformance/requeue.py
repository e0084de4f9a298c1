"""Which events bring a rejected pod back: the queue and the hints of all plugins, as they run live.

The pod is taken from the queue, rejected and returned to it; then an event comes in through the feed.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from conformance.cases import Case, Event, Want
from stowplan.cluster import Cluster
from stowplan.engine import Scheduler
from stowplan.engine.feed import Feed
from stowplan.objects import KubeObject, Pod, decode_object
from stowplan.queue import SchedulingQueue

_START = 1000.0
_BEFORE, _AFTER = "1", "2"
_STAYS = "stays"


class Parking:
    """A scheduler with a queue, in which the pod of a case was just rejected, or kept out."""

    def __init__(self, objects: list[KubeObject], pod: Pod) -> None:
        cluster = Cluster()
        scheduler = Scheduler(cluster)
        self._queue = SchedulingQueue(scheduler.profiles, cluster.nominations, lambda: _START)
        self._feed = Feed(cluster, self._queue, scheduler.profiles)
        self._known = {_identity(obj): obj for obj in objects}
        self._pod = pod
        self.message = ""
        self.plugins: frozenset[str] = frozenset()
        for obj in sorted(objects, key=_pending_last):
            self._feed.observe(None, obj)
        queued = self._queue.pop()
        if queued is not None:
            trace = scheduler.explain(queued.pod)
            self.message, self.plugins = trace.message, frozenset(trace.unschedulable_plugins)
            self._queue.add_unschedulable(queued, self.plugins)

    def after(self, event: Event) -> str:
        """Where the pod is after the event."""
        obj = _not_completed(msgspec.structs.replace(decode_object(event.object), resource_version=_AFTER))
        known = self._known.get(_identity(obj))
        if event.op == "delete":
            self._feed.observe(known, None)
        else:
            self._feed.observe(known, obj)
        where = self._queue.where(self._pod.key)
        return where if where in ("active", "backoff") else _STAYS


def requeue_differences(case: Case) -> list[str]:
    """In what the pod's rejection, or its place after each of the events, is not what is wanted."""
    objects = [msgspec.structs.replace(decode_object(raw), resource_version=_BEFORE) for raw in case.objects]
    (key,), (want,) = case.pods, case.want
    pod = next(obj for obj in objects if isinstance(obj, Pod) and obj.key == key)
    return [f"{key}: {difference}" for difference in _differences(case, want, objects, pod)]


def _differences(case: Case, want: Want, objects: list[KubeObject], pod: Pod) -> Iterator[str]:
    if len(want.events) != len(case.events):
        yield f"{len(case.events)} events, but {len(want.events)} are wanted"
        return
    parking = Parking(objects, pod)
    if parking.message != want.message:
        yield f"message: want {want.message!r}, got {parking.message!r}"
    if parking.plugins != set(want.unschedulable_plugins):
        wanted = ", ".join(sorted(want.unschedulable_plugins))
        yield f"unschedulablePlugins: want {wanted}, got {', '.join(sorted(parking.plugins))}"
    for number, (event, wanted) in enumerate(zip(case.events, want.events, strict=True)):
        got = Parking(objects, pod).after(event)
        if got != wanted:
            obj = decode_object(event.object)
            what = f"{event.op} {type(obj).__name__} {obj.key}"
            rejectors = ", ".join(sorted(parking.plugins)) or "PreEnqueue"
            yield f"event {number} ({what}), rejected by {rejectors}: want {wanted}, got {got}"


def _not_completed(obj: KubeObject) -> KubeObject:
    """kube-scheduler watches with a selector for pods that have not completed, and sees the others go; here
    the feed does that. Where the cases come from nothing selected: kube-scheduler was told of the completion
    as of any other change, and its answer is for that."""
    if not isinstance(obj, Pod) or obj.status.phase not in ("Succeeded", "Failed"):
        return obj
    return msgspec.structs.replace(obj, status=msgspec.structs.replace(obj.status, phase="Running"))


def _identity(obj: KubeObject) -> tuple[type[KubeObject], str]:
    return type(obj), obj.key


def _pending_last(obj: KubeObject) -> int:
    """Pods come when everything else is there, and the one that waits comes last."""
    if not isinstance(obj, Pod):
        return 0
    return 1 if obj.node_name else 2
