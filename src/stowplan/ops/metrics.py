"""What is counted and timed, under the names, labels and buckets of kube-scheduler: dashboards and alerts
made for it keep working. Only what is really measured is here.

Numbers that can be read off the queue and the cluster are read when somebody asks, not kept.
"""

from __future__ import annotations

import platform
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

import stowplan
from stowplan.engine.observer import Observer
from stowplan.queue.queued import QueuedPod

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=values"

_LAST_ATTEMPTS = 15
"""Pods that needed so many attempts or more are one label value."""

disable_created_metrics()  # type: ignore[no-untyped-call]  # upstream has no `_created` series


def exponential(start: float, factor: float, count: int) -> list[float]:
    """Bucket bounds, each a factor above the one before."""
    return [start * factor**step for step in range(count)]


_MILLISECOND_AND_UP = exponential(0.001, 2, 15)
_CLIENT_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)


@dataclass
class Sources:
    """Where numbers are read when somebody asks. Each may come later than the metrics."""

    pending: Callable[[], dict[str, int]] = dict
    """Pods by where they are in the queue."""
    queued: Callable[[], Iterable[QueuedPod]] = tuple
    """All pods that wait."""
    in_flight: Callable[[], dict[str, int]] = dict
    """What is kept for pods that were taken out of the queue and are on their way, by event."""
    cache: Callable[[], dict[str, int]] = dict
    """Sizes of what is known of the cluster, by type: nodes, pods, assumed_pods."""
    preemption_attempts: Callable[[], int] = int
    """How often it was asked whether preemption helps."""
    running: Callable[[], dict[str, int]] = dict
    """Work under way, by operation."""
    tasks: Callable[[], int] | None = None
    """All tasks of the event loop."""
    extra: list[Collector] = field(default_factory=list)


class SchedulerMetrics(Observer):
    """The metrics of one process, and the observer that feeds them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.sources = Sources()
        self.disabled: frozenset[str] = frozenset()
        """Metrics that are not shown, by their full names."""
        self._make_cycle_metrics()
        self._make_preemption_metrics()
        self._make_client_metrics()
        self._leading = Gauge(
            "leader_election_master_status",
            "[ALPHA] Whether this process holds the lease (1) or not (0).",
            ["name"],
            registry=self.registry,
        )
        Info("stowplan_build", "What is running.", registry=self.registry).info(
            {"version": stowplan.__version__, "python_version": platform.python_version()}
        )
        self.registry.register(_FromSources(self.sources))
        ProcessCollector(registry=self.registry)

    def render(self) -> bytes:
        """Everything in the text format of Prometheus."""
        return generate_latest(_Shown(self.registry, self.disabled) if self.disabled else self.registry)

    # Observer

    def attempted(self, profile: str, result: str, seconds: float) -> None:
        found = self._attempt_children.get((result, profile))
        if found is None:
            found = (
                self._attempts.labels(result, profile).inc,
                self._attempt_seconds.labels(result, profile).observe,
            )
            self._attempt_children[(result, profile)] = found
        count, observe = found
        count()
        observe(seconds)

    def decided(self, seconds: float) -> None:
        self._algorithm_seconds.observe(seconds)

    def bound(
        self, profile: str, attempts: int, since_first_seen: float, *, after_flush: bool = False
    ) -> None:
        if after_flush:
            self._after_flush.inc()
        self._attempts_needed.observe(attempts)
        self._waited[min(attempts, _LAST_ATTEMPTS) - 1](since_first_seen)

    def point(self, profile: str, point: str, status: str, seconds: float) -> None:
        key = (point, status, profile)
        observe = self._point_children.get(key)
        if observe is None:
            observe = self._point_children[key] = self._point_seconds.labels(*key).observe
        observe(seconds)

    def permit_waited(self, result: str, seconds: float) -> None:
        self._permit_seconds.labels(result).observe(seconds)

    def preempted(self, victims: int) -> None:
        self._victims.observe(victims)

    def preemption_carried_out(self, result: str, seconds: float) -> None:
        self._preemption_runs.labels(result).inc()
        self._preemption_seconds.labels(result).observe(seconds)

    # What others tell

    def arrived(self, place: str, event: str) -> None:
        """A pod came to a place of the queue (the queue's `arrived`)."""
        key = (place, event)
        count = self._arrival_children.get(key)
        if count is None:
            count = self._arrival_children[key] = self._arrivals.labels(place, event).inc
        count()

    def requested(self, method: str, host: str, code: int | str, seconds: float | None) -> None:
        """A request to the API server was answered, or (`<error>`) was not. No seconds: it was a stream."""
        key = (method, code)
        found = self._request_children.get(key)
        if found is None:
            found = (
                self._requests.labels(str(code), host, method).inc,
                self._request_seconds.labels(host, method).observe,
            )
            self._request_children[key] = found
        count, observe = found
        count()
        if seconds is not None:
            observe(seconds)

    def held_up(self, host: str, method: str, seconds: float) -> None:
        """For how long a request's turn had not come yet, because of the rate this client keeps to."""
        observe = self._held_up_children.get(method)
        if observe is None:
            observe = self._held_up_children[method] = self._held_up_seconds.labels(host, method).observe
        observe(seconds)

    def leading(self, holds: bool) -> None:
        """Whether the lease is ours. Upstream's label is the same whatever the lease is called."""
        self._leading.labels("kube-scheduler").set(1 if holds else 0)

    # The metrics themselves

    def _make_cycle_metrics(self) -> None:
        self._attempts = self._counter(
            "schedule_attempts_total",
            "[STABLE] Attempts to schedule pods, by what came of them.",
            "result",
            "profile",
        )
        self._attempt_seconds = self._histogram(
            "scheduling_attempt_duration_seconds",
            "[STABLE] How long attempts took, from taking the pod out of the queue to its binding.",
            _MILLISECOND_AND_UP,
            "result",
            "profile",
        )
        self._attempt_children: dict[tuple[str, str], tuple[Callable[[], None], Callable[[float], None]]] = {}
        self._algorithm_seconds = self._histogram(
            "scheduling_algorithm_duration_seconds",
            "[ALPHA] How long it took to decide.",
            _MILLISECOND_AND_UP,
        )
        self._attempts_needed = self._histogram(
            "pod_scheduling_attempts",
            "[STABLE] How many attempts pods needed until they were bound.",
            exponential(1, 2, 5),
        )
        waited = self._histogram(
            "pod_scheduling_sli_duration_seconds",
            "[BETA] How long pods took from entering the queue to being bound, by attempts.",
            exponential(0.01, 2, 20),
            "attempts",
        )
        numbers = [str(number) for number in range(1, _LAST_ATTEMPTS)]
        self._waited = [waited.labels(number).observe for number in (*numbers, f"{_LAST_ATTEMPTS}+")]
        self._after_flush = self._counter(
            "pod_scheduled_after_flush_total",
            "[ALPHA] Pods bound after they were tried only because nothing had helped them for long.",
        )
        self._point_children: dict[tuple[str, str, str], Callable[[float], None]] = {}
        self._permit_seconds = self._histogram(
            "permit_wait_duration_seconds",
            "[BETA] How long pods were held back by Permit plugins.",
            _MILLISECOND_AND_UP,
            "result",
        )
        self._arrivals = self._counter(
            "queue_incoming_pods_total",
            "[STABLE] Pods that came to a place of the queue, by the event that brought them there.",
            "queue",
            "event",
        )
        self._arrival_children: dict[tuple[str, str], Callable[[], None]] = {}

    @cached_property
    def _point_seconds(self) -> Histogram:
        """Exists once a host times the points: an empty metric would say that nothing ever ran."""
        return self._histogram(
            "framework_extension_point_duration_seconds",
            "[STABLE] How long all plugins of an extension point took together.",
            exponential(0.0001, 2, 12),
            "extension_point",
            "status",
            "profile",
        )

    def _make_preemption_metrics(self) -> None:
        self._victims = self._histogram(
            "preemption_victims", "[STABLE] Pods that have to go for one preemption.", exponential(1, 2, 7)
        )
        self._preemption_runs = self._counter(
            "preemption_goroutines_execution_total",
            "[ALPHA] Preemptions carried out, by what came of them.",
            "result",
        )
        self._preemption_seconds = self._histogram(
            "preemption_goroutines_duration_seconds",
            "[ALPHA] How long it took to carry preemptions out.",
            exponential(0.01, 2, 20),
            "result",
        )

    def _make_client_metrics(self) -> None:
        self._requests = Counter(
            "rest_client_requests_total",
            "[ALPHA] Requests to the API server, by status code and method.",
            ["code", "host", "method"],
            registry=self.registry,
        )
        self._request_seconds = self._client_histogram(
            "request_duration_seconds", "[ALPHA] How long the API server took to answer."
        )
        self._held_up_seconds = self._client_histogram(
            "rate_limiter_duration_seconds",
            "[ALPHA] For how long requests were kept back, to hold the client's own rate (qps).",
        )
        self._held_up_children: dict[str, Callable[[float], None]] = {}
        self._request_children: dict[
            tuple[str, int | str], tuple[Callable[[], None], Callable[[float], None]]
        ] = {}

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, namespace="scheduler", registry=self.registry)

    def _client_histogram(self, name: str, text: str) -> Histogram:
        return Histogram(
            name,
            text,
            ["host", "verb"],
            namespace="rest_client",
            buckets=_CLIENT_SECONDS,
            registry=self.registry,
        )

    def _histogram(self, name: str, text: str, buckets: list[float], *labels: str) -> Histogram:
        return Histogram(name, text, labels, namespace="scheduler", buckets=buckets, registry=self.registry)


class _Shown(Collector):
    """All but some."""

    def __init__(self, registry: CollectorRegistry, disabled: frozenset[str]) -> None:
        self._registry = registry
        self._disabled = disabled

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            name = f"{family.name}_total" if family.type == "counter" else family.name
            if name not in self._disabled:
                yield family


class _FromSources(Collector):
    """Reads the gauges off their sources."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        sources = self._sources
        yield _gauge(
            "scheduler_pending_pods",
            "[STABLE] Pending pods, by the place of the queue they are in.",
            ("queue",),
            {(place,): count for place, count in sources.pending().items()},
        )
        yield _gauge(
            "scheduler_unschedulable_pods",
            "[BETA] Pods that are not scheduled, by the plugin that rejected them. A pod counts for each.",
            ("plugin", "profile"),
            _rejected_by_plugin(sources.queued()),
        )
        yield _gauge(
            "scheduler_inflight_events",
            "[ALPHA] What is kept for pods on their way: their own entries, and what happened since.",
            ("event",),
            {(event,): count for event, count in sources.in_flight().items()},
        )
        yield _gauge(
            "scheduler_cache_size",
            "[ALPHA] What is known of the cluster: nodes, pods and assumed pods.",
            ("type",),
            {(kind,): count for kind, count in sources.cache().items()},
        )
        yield CounterMetricFamily(
            "scheduler_preemption_attempts",
            "[STABLE] Attempts to make room by preemption, whatever came of them.",
            sources.preemption_attempts(),
        )
        yield _gauge(
            "scheduler_goroutines",
            "[BETA] Work that goes on beside the scheduling cycle, by operation.",
            ("operation",),
            {(operation,): count for operation, count in sources.running().items()},
        )
        if sources.tasks is not None:
            yield GaugeMetricFamily(
                "go_goroutines", "Tasks of the event loop, under the name dashboards know.", sources.tasks()
            )
        for collector in sources.extra:
            yield from collector.collect()


def _gauge(name: str, text: str, labels: tuple[str, ...], values: dict[tuple[str, ...], int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _rejected_by_plugin(queued: Iterable[QueuedPod]) -> dict[tuple[str, ...], int]:
    """Counts sets of plugins first: there are few of them, and many pods."""
    by_set = Tally((one.rejectors, one.pod.spec.scheduler_name) for one in queued)
    counts: Tally[tuple[str, ...]] = Tally()
    for (plugins, profile), count in by_set.items():
        for plugin in plugins:
            counts[(plugin, profile)] += count
    return dict(counts)
