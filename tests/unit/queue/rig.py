"""A queue with a clock that stands still, and plugins that do as a test says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stowplan.cluster import Cluster, NodeRow
from stowplan.framework import CycleState, FilterPlugin, Plugin, Status, unresolvable
from stowplan.framework.contract import PreEnqueuePlugin
from stowplan.framework.events import Action, ClusterEvent, EventHint, Resource, cluster_event
from stowplan.framework.handle import Host
from stowplan.framework.points import POINTS, points_of
from stowplan.framework.profile import DEFAULT_SCHEDULER, Profile, ProfilePlan
from stowplan.framework.registry import register
from stowplan.objects import Pod
from stowplan.plugins.priority_sort import PrioritySort
from stowplan.queue import QueuedPod, SchedulingQueue
from stowplan.testing.builders import make_pod

NODE_LABEL = cluster_event(Resource.NODE, Action.UPDATE_NODE_LABEL)
NODE_TAINT = cluster_event(Resource.NODE, Action.UPDATE_NODE_TAINT)
CLASS_ADD = cluster_event(Resource.STORAGE_CLASS, Action.ADD)


class Picky(FilterPlugin):
    """Waits for nodes to change their labels; the test says for which pods that helps."""

    helps: Callable[[Pod, Any, Any], bool]

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.helps = lambda pod, old, new: True
        self.asked: list[str] = []

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        return None

    def events(self) -> Sequence[EventHint]:
        return (EventHint(Resource.NODE, Action.UPDATE_NODE_LABEL, self._hint),)

    def _hint(self, pod: Pod, old: Any, new: Any) -> bool:
        self.asked.append(pod.name)
        return self.helps(pod, old, new)


class Shapely(Picky):
    """The same, by shape."""

    def events(self) -> Sequence[EventHint]:
        return (EventHint(Resource.NODE, Action.UPDATE_NODE_LABEL, self._hint, by_shape=True),)


class Gate(PreEnqueuePlugin):
    """Keeps out the pods that a test names, until a storage class comes."""

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.closed: set[str] = set()
        self.asked = 0

    def pre_enqueue(self, pod: Pod) -> Status | None:
        self.asked += 1
        return unresolvable("closed") if pod.name in self.closed else None

    def events(self) -> Sequence[EventHint]:
        return (EventHint(Resource.STORAGE_CLASS, Action.ADD),)


class Rig:
    """The queue, what belongs to it, and short ways to use it."""

    def __init__(
        self, *plugins: type[Plugin], names: Sequence[str] = (DEFAULT_SCHEDULER,), **options: Any
    ) -> None:
        self.cluster = Cluster()
        self.time = 1000.0
        self.arrivals: list[tuple[str, str]] = []
        registry = register(dict.fromkeys([PrioritySort, *(plugins or (Picky, Gate))]))
        points = {
            point: tuple(name for name, plugin in registry.items() if point in points_of(plugin))
            for point in POINTS
        }
        host = Host(self.cluster)
        self.profiles = {
            name: Profile(ProfilePlan(name, points=points, args=dict.fromkeys(registry)), registry, host)
            for name in names
        }
        self.queue = SchedulingQueue(
            self.profiles,
            self.cluster.nominations,
            lambda: self.time,
            arrived=lambda place, reason: self.arrivals.append((place, reason)),
            **options,
        )

    def plugin(self, name: str) -> Any:
        return self.profiles[DEFAULT_SCHEDULER].plugins[name]

    def reject(self, pod: Pod, *plugins: str, pending: Sequence[str] = ()) -> QueuedPod:
        """Adds the pod, decides it and returns it, rejected by these plugins (none: by an error)."""
        self.queue.add(pod)
        queued = self.pop()
        assert queued.pod is pod
        self.queue.add_unschedulable(queued, frozenset(plugins), frozenset(pending))
        return queued

    def pop(self) -> QueuedPod:
        queued = self.queue.pop()
        assert queued is not None
        return queued

    def move(self, event: ClusterEvent, old: Any = None, new: Any = None) -> None:
        self.queue.move(event, old, new)

    def pass_time(self, seconds: float) -> None:
        self.time += seconds
        self.queue.tick()

    def where(self, pod: Pod) -> str:
        return self.queue.where(pod.key)


def pod(name: str, uid: str = "", priority: int = 0, **spec: Any) -> Pod:
    builder = make_pod(name).spec(priority=priority, **spec)
    builder.manifest["metadata"]["uid"] = uid or f"uid-{name}"
    return builder.build()
