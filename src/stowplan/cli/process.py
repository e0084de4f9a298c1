"""What a scheduler and its shadow have in common: connections, logs, pages, signals, beginning and end."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import signal
import time
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from stowplan.cli.informing import Informers
from stowplan.cli.main import CommandError
from stowplan.cluster import Cluster
from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.config.writing import to_data, to_yaml, with_expanded_args
from stowplan.engine.scheduler import Scheduler
from stowplan.framework.contract import Client
from stowplan.framework.profile import ProfilePlan
from stowplan.framework.registry import discover
from stowplan.kube.client import ApiClient
from stowplan.kube.errors import ApiError
from stowplan.kube.kubeconfig import KubeconfigError, load_access
from stowplan.kube.pool import Admit, anything
from stowplan.ops.clientmetrics import MeasuredTransport
from stowplan.ops.dump import dump
from stowplan.ops.endpoints import Pages
from stowplan.ops.health import Check, HealthGroup, HealthMetrics
from stowplan.ops.logs import Logs, LogSettings
from stowplan.ops.metrics import SchedulerMetrics
from stowplan.ops.server import OpsServer, ServerSettings
from stowplan.plugins import IN_TREE
from stowplan.plugins.defaultpreemption import DefaultPreemption
from stowplan.queue.queue import SchedulingQueue

log = logging.getLogger(__name__)

_YOUNG_OBJECTS = 50_000


@dataclass(frozen=True)
class RunSettings:
    """What the command line and the configuration file say, checked."""

    configuration: KubeSchedulerConfiguration
    profiles: tuple[ProfilePlan, ...]
    logs: LogSettings = field(default=LogSettings())
    flush_every: float = 5.0
    warnings: tuple[str, ...] = ()
    master: str = ""
    max_in_unschedulable: float = 300.0
    server: ServerSettings | None = None
    authentication_kubeconfig: str = ""
    authorization_kubeconfig: str = ""
    disabled_metrics: frozenset[str] = frozenset()
    shadow: bool = False


def steady_clock() -> Callable[[], float]:
    """Seconds since the epoch that never jump: the queue's waits must not end because a clock was set."""
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()


class Process:
    """The parts that a scheduler and its shadow share. What is done with them is up to `act`."""

    informers: Informers

    def __init__(self, settings: RunSettings, logs: Logs) -> None:
        """Raises KubeconfigError, OSError or ValueError for what cannot be used."""
        self.settings = settings
        self.stopping = asyncio.Event()
        self._logs = logs
        self._tasks: set[asyncio.Task[None]] = set()
        self._clients: list[ApiClient] = []
        self._server: OpsServer | None = None
        self.metrics = SchedulerMetrics()
        self.metrics.disabled = settings.disabled_metrics
        connection = settings.configuration.client_connection
        self.access = load_access(connection.kubeconfig, master=settings.master)
        self.client = self.connect(connection.qps, connection.burst, admit=self.admit)

    def connect(
        self, qps: float = -1.0, burst: int = 1, *, connections: int = 32, admit: Admit = anything
    ) -> ApiClient:
        """A client of the API server, with connections and a rate of its own."""
        host = self.access.server.partition("://")[2]
        pool = self.access.transport(connections=connections, admit=admit)
        transport = MeasuredTransport(pool, host, self.metrics)
        held_up = partial(self.metrics.held_up, host)
        return self._kept(
            ApiClient(
                self.access,
                qps=qps,
                burst=burst,
                connections=connections,
                transport=transport,
                held_up=held_up,
            )
        )

    def _kept(self, client: ApiClient) -> ApiClient:
        self._clients.append(client)
        return client

    def build_core(self, client: Client | None = None) -> None:
        """The cluster, what decides, and the queue."""
        configuration = self.settings.configuration
        self.cluster = Cluster()
        self.core = Scheduler(
            self.cluster,
            configuration,
            registry=discover(IN_TREE),
            client=client,
            now=steady_clock(),
            seed=uuid.uuid4().int & 0x7FFFFFFF,
        )
        self.queue = SchedulingQueue(
            self.core.profiles,
            self.cluster.nominations,
            self.core.host.now,
            initial_backoff=float(configuration.pod_initial_backoff_seconds),
            max_backoff=float(configuration.pod_max_backoff_seconds),
            max_in_unschedulable=self.settings.max_in_unschedulable,
            arrived=self.metrics.arrived,
        )
        sources = self.metrics.sources
        sources.pending = self.queue.counts
        sources.queued = self.queue.pods
        sources.in_flight = self.queue.in_flight_counts
        sources.cache = lambda: {
            "nodes": self.cluster.table.size,
            "pods": len(self.cluster.pods),
            "assumed_pods": len(self.cluster.assumed),
        }
        preemptions = [
            plugin
            for profile in self.core.profiles.values()
            for plugin in profile.post_filters
            if isinstance(plugin, DefaultPreemption)
        ]
        sources.preemption_attempts = lambda: sum(plugin.attempts for plugin in preemptions)
        sources.tasks = lambda: len(asyncio.all_tasks())

    # What differs

    def admit(self, method: str, target: str) -> None:
        """Raises when `client` must not send this request now."""

    @property
    def is_leading(self) -> bool:
        """Whether this process is the one whose numbers count."""
        return True

    def election_checks(self) -> tuple[Check, ...]:
        return ()

    async def act(self) -> int:
        """The work itself, until `stopping` is set; returns the exit code."""
        raise NotImplementedError

    # A life

    async def run(self) -> int:
        """From the beginning to the end."""
        self._listen_to_signals()
        if log.isEnabledFor(18):
            log.log(18, "Using component config", extra={"config": to_yaml(self._expanded())})
        if self.settings.server is not None:
            await self._serve(self.settings.server)
        self.spawn(self._flush_logs())
        return await self.act()

    async def know_the_cluster(self) -> None:
        """Returns when everything has been read once. Then the garbage collector need not look at it again
        and again: objects come and go by the thousands, and nearly none of them in circles."""
        started = time.monotonic()
        self.informers.start(self.spawn)
        await self.informers.settled()
        gc.collect()
        gc.freeze()
        gc.set_threshold(_YOUNG_OBJECTS, 20, 50)
        log.info(
            "Caches are synced",
            extra={
                "nodes": self.cluster.table.size,
                "pods": len(self.cluster.pods),
                "pending": len(self.queue),
                "seconds": round(time.monotonic() - started, 3),
            },
        )

    async def until_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Returns when the work is done, or given up because the process has to end."""
        task = self.spawn(work)
        stopping = asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                await task
        finally:
            for each in (task, stopping):
                each.cancel()
            await asyncio.gather(task, stopping, return_exceptions=True)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work that goes on beside; it ends with the process at the latest."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Ends what is still going on, in the order in which things depend on each other."""
        if self._server is not None:
            await self._server.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.core.close()
        for client in self._clients:
            await client.close()

    async def _flush_logs(self) -> None:
        while True:
            await asyncio.sleep(max(self.settings.flush_every, 0.1))
            self._logs.flush()

    # Pages

    async def _serve(self, settings: ServerSettings) -> None:
        pages = Pages(
            self.metrics,
            *self._health(),
            pods=self.informers.pods_now,
            leading=lambda: self.is_leading,
            configuration=lambda: to_data(self._expanded()),
            set_verbosity=(
                self._logs.set_verbosity if self.settings.configuration.enable_profiling else None
            ),
        )
        authentication = self._reviewer("authentication", self.settings.authentication_kubeconfig)
        authorization = self._reviewer("authorization", self.settings.authorization_kubeconfig)
        try:
            self._server = OpsServer(settings, pages, authentication, authorization)
            await self._server.start()
        except (OSError, ValueError) as problem:
            taken = isinstance(problem, OSError) and problem.errno == errno.EADDRINUSE
            advice = "; --secure-port names another port, 0 none" if taken else ""
            raise CommandError(f"cannot serve HTTPS: {problem}{advice}") from None

    def _health(self) -> tuple[tuple[HealthGroup, ...], HealthMetrics]:
        metrics = HealthMetrics()
        election = self.election_checks()
        ready = (
            *election,
            Check("shutdown", lambda: "process is shutting down" if self.stopping.is_set() else None),
            Check("sched-handler-sync", self.informers.problem),
        )
        groups = (
            HealthGroup("healthz", election, metrics),
            HealthGroup("livez", (), metrics),
            HealthGroup("readyz", ready, metrics),
        )
        return groups, metrics

    def _reviewer(self, what: str, kubeconfig: str) -> ApiClient | None:
        """A client for reviews. Without a kubeconfig there is one in a cluster only, and even there not in
        static pods, which have no service account."""
        if not kubeconfig and not os.environ.get("KUBERNETES_SERVICE_HOST"):
            return None
        try:
            access = load_access(kubeconfig)
        except KubeconfigError as problem:
            if kubeconfig:
                raise
            log.warning("nobody to ask about %s without --%s-kubeconfig: %s", what, what, problem)
            return None
        return self._kept(ApiClient(access, connections=4, timeout=10.0))

    def _expanded(self) -> KubeSchedulerConfiguration:
        return with_expanded_args(self.settings.configuration, self.settings.profiles)

    # Signals

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked_to_end, number)
        loop.add_signal_handler(signal.SIGUSR2, lambda: self.spawn(self._dump()))

    def _asked_to_end(self, number: signal.Signals) -> None:
        if self.stopping.is_set():
            log.error("%s a second time: ending at once", number.name)
            self._logs.flush()
            os._exit(1)
        log.info("%s: ending", number.name)
        self.stopping.set()

    async def _dump(self) -> None:
        try:
            await dump(self.cluster, self.queue, self.informers.fetch)
        except ApiError as problem:
            log.warning("the cache could not be compared with the API server: %s", problem)
