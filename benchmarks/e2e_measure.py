"""The measurements: each load for the API alone, and for one scheduler.

Pods of a batch are created while no scheduler runs, so that what is measured is scheduling and not the
creation of pods; then the scheduler is started. Rates are counted from the first binding to the last, so
they leave out the start; processor time is that of the whole life of the process, until the last event is
written.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.e2e_loads import Batch, Ready, Steady, pod_posts
from benchmarks.e2e_server import CONNECTIONS, EVENTS, JSON, PODS, BindingMeter, Post, Server, ServerError
from benchmarks.e2e_sides import Running, Side
from benchmarks.loads import pod

_PATIENCE = 120.0
"""Seconds without a single binding after which a scheduler is given up."""
_QUIET = 1.5
"""Seconds without a new event after which all are written."""
_EVENTS_DEADLINE = 60.0
_WARM_UP = 50


@dataclass
class Figures:
    """What came of one load, for one side. None: not measured."""

    bound: int = 0
    expected: int = 0
    rate: float | None = None
    """Pods per second, from the first binding to the last."""
    elapsed: float | None = None
    """Seconds from the start of the process to the last binding."""
    first: float | None = None
    """Seconds from the start of the process to the first binding."""
    cpu: float | None = None
    """Seconds of processor time."""
    cpu_per_pod: float | None = None
    """Milliseconds, of all processor time."""
    cpu_per_pod_running: float | None = None
    """Milliseconds, of what was used after the first binding (after the warm-up where pods come steadily)."""
    resident: float | None = None
    resident_at_most: float | None = None
    events: int | None = None
    events_after: float | None = None
    """Seconds from the last binding to the last event."""
    latency_median: float | None = None
    latency_p99: float | None = None
    """Milliseconds from sending the creation to seeing the binding."""
    note: str = ""

    def shown(self) -> dict[str, float | int | str]:
        return {name: value for name, value in vars(self).items() if value not in {None, ""}}


@dataclass
class Bench:
    """Where to measure."""

    server: Server
    config: Path
    logs: Path
    _runs: int = field(default=0, repr=False)

    def start(self, side: Side) -> Running:
        self._runs += 1
        return side.start(self.config, self.logs / f"{side.name}-{self._runs}.log")


async def ceiling(bench: Bench, load: Batch) -> Figures:
    """Binds all pods to nodes in turn and writes an event for each, as fast as the API takes it. As with a
    scheduler, somebody else watches the pods meanwhile."""
    bodies = iter(
        [_binding_and_event(each["metadata"]["name"], i % load.nodes) for i, each in enumerate(load.pods())]
    )

    async def work() -> None:
        for binding, event in bodies:
            await bench.server.call("POST", *binding)
            await bench.server.call("POST", *event)

    everything = asyncio.create_task(
        bench.server.watch(f"{PODS}?watch=1&timeoutSeconds=3600", JSON, lambda data: None)
    )
    async with BindingMeter(bench.server, JSON) as meter:
        started = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
        seconds = time.perf_counter() - started
        await meter.until(load.bindings, _PATIENCE)
    everything.cancel()
    await asyncio.gather(everything, return_exceptions=True)
    return Figures(
        bound=len(meter.bound), expected=load.bindings, rate=load.bindings / seconds, elapsed=seconds
    )


def _binding_and_event(name: str, node_number: int) -> tuple[Post, Post]:
    node = f"node-{node_number:05d}"
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": "default"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{time.time_ns():x}", "namespace": "default"},
        "eventTime": time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime()),
        "reportingController": "benchmark",
        "reportingInstance": "benchmark-0",
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "note": f"Successfully assigned default/{name} to {node}",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": name},
    }
    encode = msgspec.json.encode
    return (f"{PODS}/{name}/binding", encode(binding)), (EVENTS, encode(event))


async def batch(bench: Bench, load: Batch, side: Side) -> Figures:
    """A scheduler that finds all pods waiting when it starts."""
    events_before = await bench.server.count(EVENTS)
    async with BindingMeter(bench.server, side.accept) as meter:
        running = bench.start(side)
        try:
            if not await meter.first(_PATIENCE):
                raise ServerError(f"{side.name} bound nothing:\n{running.log_tail()}")
            cpu_first, first = running.cpu(), next(iter(meter.bound.values()))
            behind = len(meter.bound)
            complete = await meter.until(load.bindings, _PATIENCE)
            last = max(meter.bound.values())
            events, written = await _events_written(bench.server, events_before)
            cpu = running.cpu()
            resident, at_most = running.memory()
            bound = len(meter.bound)
            return Figures(
                bound=bound,
                expected=load.bindings,
                rate=(bound - 1) / (last - first) if last > first else None,
                elapsed=last - running.started,
                first=first - running.started,
                cpu=cpu,
                cpu_per_pod=1000 * cpu / bound,
                cpu_per_pod_running=1000 * (cpu - cpu_first) / max(bound - behind, 1),
                resident=resident,
                resident_at_most=at_most,
                events=events,
                events_after=max(written - last, 0.0),
                note="" if complete else f"gave up: no binding for {_PATIENCE:.0f} s",
            )
        finally:
            running.stop()


async def _events_written(server: Server, before: int) -> tuple[int, float]:
    """How many events were written since, and when the last one was."""
    count = await server.count(EVENTS)
    changed = started = time.perf_counter()
    while (now := time.perf_counter()) - changed < _QUIET and now - started < _EVENTS_DEADLINE:
        await asyncio.sleep(0.2)
        latest = await server.count(EVENTS)
        if latest != count:
            count, changed = latest, time.perf_counter()
    return count - before, changed


async def steady(bench: Bench, load: Steady, side: Side) -> Figures:
    """A scheduler that is ready, and pods that come one by one."""
    encoded = list(pod_posts(pod(i, "basic") for i in range(_WARM_UP + load.rate * load.seconds)))
    async with BindingMeter(bench.server, side.accept) as meter:
        running = bench.start(side)
        try:
            await bench.server.post_all(encoded[:_WARM_UP])
            if not await meter.until(_WARM_UP, _PATIENCE):
                raise ServerError(f"{side.name} bound nothing:\n{running.log_tail()}")
            await asyncio.sleep(2)
            cpu_before = running.cpu()
            sent = await _send_steadily(bench.server, iter(encoded[_WARM_UP:]), load.rate)
            complete = await meter.until(len(encoded), 30)
            await asyncio.sleep(1)
            cpu = running.cpu() - cpu_before
            names = [f"basic-{i:06d}" for i in range(_WARM_UP, len(encoded))]
            took = sorted(
                1000 * (meter.bound[name] - at)
                for name, at in zip(names, sent, strict=True)
                if name in meter.bound
            )
            resident, at_most = running.memory()
            return Figures(
                bound=len(took),
                expected=len(sent),
                cpu=cpu,
                cpu_per_pod_running=1000 * cpu / len(took),
                resident=resident,
                resident_at_most=at_most,
                latency_median=median(took),
                latency_p99=took[min(len(took) - 1, int(len(took) * 0.99))],
                note="" if complete else "not all pods were bound",
            )
        finally:
            running.stop()


async def _send_steadily(server: Server, posts: Iterator[Post], rate: int) -> list[float]:
    """Sends each at its time, whatever became of those before; returns when each was sent."""
    sent: list[float] = []
    under_way: set[asyncio.Task[object]] = set()
    began = time.perf_counter()
    for i, (path, body) in enumerate(posts):
        delay = began + i / rate - time.perf_counter()
        if delay > 0:
            await asyncio.sleep(delay)
        sent.append(time.perf_counter())
        task: asyncio.Task[object] = asyncio.create_task(server.call("POST", path, body))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    await asyncio.gather(*under_way)
    return sent


async def ready(bench: Bench, load: Ready, side: Side) -> Figures:
    """From the start of the process until it has bound a pod."""
    await bench.server.post_all(pod_posts(iter([pod(999_999, "basic")])))
    async with BindingMeter(bench.server, side.accept) as meter:
        running = bench.start(side)
        try:
            complete = await meter.first(_PATIENCE)
            resident, at_most = running.memory()
            return Figures(
                bound=len(meter.bound),
                expected=1,
                elapsed=max(meter.bound.values()) - running.started if complete else None,
                cpu=running.cpu(),
                resident=resident,
                resident_at_most=at_most,
                note="" if complete else f"not ready after {_PATIENCE:.0f} s",
            )
        finally:
            running.stop()
            await bench.server.call("DELETE", f"{PODS}/basic-999999?gracePeriodSeconds=0")
