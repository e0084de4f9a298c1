"""A small world for the live loop: a planner that writes into memory, and a cluster that hears of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stowplan.cluster import Cluster
from stowplan.engine import Scheduler
from stowplan.engine.live import LiveScheduler
from stowplan.engine.planner import PodCondition
from stowplan.framework import Plugin
from stowplan.framework.events import ASSIGNED_POD_DELETE
from stowplan.objects import KubeObject, Node, Pod
from stowplan.queue import SchedulingQueue
from stowplan.testing.builders import PodBuilder
from stowplan.testing.deciding import configured


@dataclass
class Event:
    regarding: str
    type: str
    reason: str
    note: str


@dataclass
class World:
    """Pods as an API server would have them, and everything that was written."""

    pods: dict[str, Pod] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    conditions: dict[str, PodCondition] = field(default_factory=dict)
    nominated: list[tuple[str, str]] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)
    bind_calls: list[tuple[str, str]] = field(default_factory=list)
    before_bind: Callable[[Pod], Awaitable[None]] | None = None
    live: LiveScheduler = field(init=False)

    def get(self, key: str) -> Pod | None:
        return self.pods.get(key)

    # The planner

    async def bind(self, pod: Pod, node_name: str) -> None:
        self.bind_calls.append((pod.key, node_name))
        if self.before_bind is not None:
            await self.before_bind(pod)
        assert not self.pods[pod.key].node_name, f"{pod.key} is bound twice"
        self.pods[pod.key] = pod.placed_on(node_name)
        self.live.queue.delete(pod)
        self.live.core.cluster.add(self.pods[pod.key])

    async def patch_status(
        self, pod: Pod, *, condition: PodCondition | None = None, nominated_node: str | None = None
    ) -> None:
        if condition is not None:
            self.conditions[pod.key] = condition
        if nominated_node is not None:
            self.nominated.append((pod.key, nominated_node))

    async def evict(self, pod: Pod) -> None:
        self.evicted.append(pod.key)
        del self.pods[pod.key]
        self.live.core.cluster.remove_pod(pod.uid)
        self.live.queue.move(ASSIGNED_POD_DELETE, pod, None)
        self.live.wake()

    def record(
        self,
        regarding: KubeObject,
        *,
        reporter: str,
        type: str,
        reason: str,
        action: str,
        note: str,
        related: KubeObject | None = None,
    ) -> None:
        self.events.append(Event(f"{regarding.namespace}/{regarding.name}", type, reason, note))

    async def update(self, obj: Any, *, subresource: str = "") -> Any:
        return obj

    async def create(self, obj: Any) -> Any:
        return obj

    async def delete(self, obj: Any) -> None: ...

    async def patch(self, obj: Any, patch: Any, *, subresource: str = "") -> Any:
        return obj

    # What tests do

    def add(self, *pods: Pod | PodBuilder) -> None:
        """New pods, placed or pending."""
        for one in pods:
            pod = one.build() if isinstance(one, PodBuilder) else one
            self.pods[pod.key] = pod
            if pod.node_name:
                self.live.core.cluster.add(pod)
            else:
                self.live.queue.add(pod)
        self.live.wake()

    def remove(self, key: str) -> None:
        pod = self.pods.pop(key)
        self.live.core.cluster.remove_pod(pod.uid)
        self.live.queue.delete(pod)

    def node_of(self, name: str) -> str:
        return self.pods[f"default/{name}"].node_name

    def reasons(self, name: str) -> list[str]:
        return [event.reason for event in self.events if event.regarding == f"default/{name}"]

    async def until(self, done: Callable[[], bool], seconds: float = 3.0) -> None:
        """Waits until something is so."""
        async with asyncio.timeout(seconds):
            while not done():  # noqa: ASYNC110 - anything at all may make it so
                await asyncio.sleep(0.002)


def make_world(
    nodes: Iterable[Node], *, plugins: Iterable[type[Plugin]] = (), config: str | None = None
) -> World:
    """A world with these nodes; its loop is started by `running`."""
    cluster = Cluster()
    for node in nodes:
        cluster.add(node)
    world = World()
    configuration, registry = configured(plugins, config)
    loop = asyncio.get_running_loop()
    core = Scheduler(cluster, configuration, registry=registry, client=world, now=loop.time)
    queue = SchedulingQueue(
        core.profiles, cluster.nominations, loop.time, initial_backoff=0.01, max_backoff=0.01
    )
    world.live = LiveScheduler(core, queue, world, world)
    return world


class running:  # noqa: N801 - reads as a statement
    """Runs the loop of a world for as long as the block lasts, and sees that nothing is left behind."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def __aenter__(self) -> World:
        self._task = asyncio.ensure_future(self._world.live.run())
        return self._world

    async def __aexit__(self, *problem: object) -> None:
        self._world.live.stop()
        await self._task


def renamed(pod: Pod, **fields: Any) -> Pod:
    return msgspec.structs.replace(pod, **fields)
