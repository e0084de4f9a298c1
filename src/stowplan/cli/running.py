"""A scheduler as a process: everything is built here, connected, started in order and ended in order.

reflectors ──▶ feed ──▶ cluster, queue ──▶ live loop ──▶ planner ──▶ client ──▶ API server
                              └──▶ metrics, pages, dumps        └──▶ recorder ──▶ (a client of its own)
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import time
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from stowplan import __version__
from stowplan.cli.informing import Informers
from stowplan.cli.main import CommandError
from stowplan.cli.shadowing import ShadowProcess
from stowplan.cluster import Cluster
from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.config.writing import to_data, to_yaml, with_expanded_args
from stowplan.engine.feed import Feed
from stowplan.engine.live import LiveScheduler
from stowplan.engine.scheduler import Scheduler
from stowplan.framework.profile import ProfilePlan
from stowplan.framework.registry import discover
from stowplan.kube.access import Access
from stowplan.kube.client import ApiClient
from stowplan.kube.errors import ApiError
from stowplan.kube.kubeconfig import KubeconfigError, load_access
from stowplan.kube.leases import LeaderElector, LeaseLostError
from stowplan.kube.planner import KubePlanner
from stowplan.kube.recorder import Recorder
from stowplan.objects import Pod
from stowplan.ops.clientmetrics import MeasuredTransport
from stowplan.ops.dump import dump
from stowplan.ops.endpoints import Pages
from stowplan.ops.health import Check, HealthGroup, HealthMetrics
from stowplan.ops.logs import Logs, LogSettings
from stowplan.ops.metrics import SchedulerMetrics
from stowplan.ops.server import LookupFailedError, OpsServer, ServerSettings
from stowplan.plugins import IN_TREE
from stowplan.queue.queue import SchedulingQueue

log = logging.getLogger(__name__)

_EVENTS_PATIENCE = 3.0
_LEASE_TOLERANCE = 20.0
_YOUNG_OBJECTS = 50_000


@dataclass(frozen=True)
class RunSettings:
    """What the command line and the configuration file say, checked."""

    configuration: KubeSchedulerConfiguration
    profiles: tuple[ProfilePlan, ...]
    logs: LogSettings = LogSettings()  # noqa: RUF009 -- immutable
    flush_every: float = 5.0
    warnings: tuple[str, ...] = ()
    master: str = ""
    max_in_unschedulable: float = 300.0
    server: ServerSettings | None = None
    authentication_kubeconfig: str = ""
    authorization_kubeconfig: str = ""
    disabled_metrics: frozenset[str] = frozenset()
    shadow: bool = False


def serve(settings: RunSettings) -> int:
    """Runs until told to end, and returns the exit code."""
    logs = Logs(settings.logs)
    logs.start()
    for words in settings.warnings:
        log.warning("%s", words)
    log.info("Starting stowplan", extra={"version": __version__, "python": sys.version.split()[0]})
    try:
        return asyncio.run(_run(settings, logs))
    except (KubeconfigError, LookupFailedError) as problem:
        raise CommandError(str(problem)) from None
    finally:
        logs.flush()


async def _run(settings: RunSettings, logs: Logs) -> int:
    if settings.shadow:
        return await ShadowProcess(settings.configuration, settings.profiles, settings.master).run()
    running = SchedulerProcess(settings, logs)
    try:
        return await running.run()
    finally:
        await running.close()


def steady_clock() -> Callable[[], float]:
    """Seconds since the epoch that never jump: the queue's waits must not end because a clock was set."""
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()


class LeaseGuardedPlanner(KubePlanner):
    """Binds only while the lease is held. After a long stall, another scheduler may act already, before this
    one has noticed."""

    may_act: Callable[[], bool] = staticmethod(lambda: True)

    async def bind(self, pod: Pod, node_name: str) -> None:
        if not self.may_act():
            raise ApiError(0, "LeaseLost", f"{pod.key} is not bound: the lease is not held any more")
        await super().bind(pod, node_name)


class SchedulerProcess:
    """All parts of one scheduler."""

    def __init__(self, settings: RunSettings, logs: Logs) -> None:
        """Raises KubeconfigError, OSError or ValueError for what cannot be used."""
        self._settings = settings
        self._logs = logs
        configuration = settings.configuration
        self.metrics = SchedulerMetrics()
        self.metrics.disabled = settings.disabled_metrics
        self._patience = _EVENTS_PATIENCE
        self._clients: list[ApiClient] = []
        connection = configuration.client_connection
        access = load_access(connection.kubeconfig, master=settings.master)
        self.client = self._client(access, connection.qps, connection.burst)
        self.recorder = Recorder(
            self._client(access, connection.qps, connection.burst, connections=8), host=socket.gethostname()
        )
        self.elector = self._elector(access)
        self.planner = LeaseGuardedPlanner(self.client, self.recorder)
        if self.elector is not None:
            elector = self.elector
            self.planner.may_act = lambda: elector.is_leader
        self._build_scheduler()
        self.server = self._server()
        self._stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def _client(self, access: Access, qps: float, burst: int, *, connections: int = 32) -> ApiClient:
        transport = MeasuredTransport(
            access.transport(connections=connections), access.server.partition("://")[2], self.metrics
        )
        client = ApiClient(access, qps=qps, burst=burst, transport=transport)
        self._clients.append(client)
        return client

    def _elector(self, access: Access) -> LeaderElector | None:
        election = self._settings.configuration.leader_election
        if not election.leader_elect:
            return None
        return LeaderElector(
            self._client(access, -1.0, 1, connections=2),
            identity=f"{socket.gethostname()}_{uuid.uuid4()}",
            namespace=election.resource_namespace,
            name=election.resource_name,
            lease_duration=election.lease_duration.seconds,
            renew_deadline=election.renew_deadline.seconds,
            retry_period=election.retry_period.seconds,
            on_new_leader=lambda leader: log.info("new leader", extra={"identity": leader}),
        )

    def _build_scheduler(self) -> None:
        settings, configuration = self._settings, self._settings.configuration
        self.cluster = Cluster()
        self.core = Scheduler(
            self.cluster,
            configuration,
            registry=discover(IN_TREE),
            client=self.planner,
            now=steady_clock(),
            seed=uuid.uuid4().int & 0x7FFFFFFF,
        )
        self.core.host.sleep = asyncio.sleep
        self.queue = SchedulingQueue(
            self.core.profiles,
            self.cluster.nominations,
            self.core.host.now,
            initial_backoff=float(configuration.pod_initial_backoff_seconds),
            max_backoff=float(configuration.pod_max_backoff_seconds),
            max_in_unschedulable=settings.max_in_unschedulable,
            arrived=self.metrics.arrived,
        )
        feed = Feed(self.cluster, self.queue, self.core.profiles, self.core.host.waiting)
        self.informers = Informers(self.client, settings.profiles, feed.observe)
        self.live = LiveScheduler(
            self.core, self.queue, self.planner, self.informers.pods, observer=self.metrics
        )
        self.informers.changed = self.live.wake
        sources = self.metrics.sources
        sources.pending = self.queue.counts
        sources.queued = self.queue.pods
        sources.cache = lambda: {
            "nodes": self.cluster.table.size,
            "pods": len(self.cluster.pods),
            "assumed_pods": len(self.cluster.assumed),
        }
        sources.tasks = lambda: len(asyncio.all_tasks())
        sources.running = lambda: {"binding": self.live.binding}

    # Pages

    def _server(self) -> OpsServer | None:
        settings = self._settings
        if settings.server is None:
            return None
        pages = Pages(
            self.metrics,
            *self._health(),
            pods=self.informers.pods_now,
            leading=lambda: self._is_leading,
            configuration=lambda: to_data(self._expanded()),
            set_verbosity=self._logs.set_verbosity if settings.configuration.enable_profiling else None,
        )
        return OpsServer(
            settings.server,
            pages,
            self._reviewer(settings.authentication_kubeconfig),
            self._reviewer(settings.authorization_kubeconfig),
        )

    def _health(self) -> tuple[tuple[HealthGroup, ...], HealthMetrics]:
        metrics = HealthMetrics()
        elector = self.elector
        election = (
            () if elector is None else (Check("leaderElection", lambda: elector.problem(_LEASE_TOLERANCE)),)
        )
        ready = (
            *election,
            Check("shutdown", lambda: "process is shutting down" if self._stopping.is_set() else None),
            Check("sched-handler-sync", self.informers.problem),
        )
        groups = (
            HealthGroup("healthz", election, metrics),
            HealthGroup("livez", (), metrics),
            HealthGroup("readyz", ready, metrics),
        )
        return groups, metrics

    def _reviewer(self, kubeconfig: str) -> ApiClient | None:
        """A client for reviews. Without a kubeconfig there is one in a cluster only."""
        if not kubeconfig and not os.environ.get("KUBERNETES_SERVICE_HOST"):
            return None
        client = ApiClient(load_access(kubeconfig), connections=4, timeout=10.0)
        self._clients.append(client)
        return client

    def _expanded(self) -> KubeSchedulerConfiguration:
        return with_expanded_args(self._settings.configuration, self._settings.profiles)

    @property
    def _is_leading(self) -> bool:
        return self.elector is None or self.elector.is_leader

    # Running

    async def run(self) -> int:
        """The whole life: the exit code is kube-scheduler's."""
        self._listen_to_signals()
        if log.isEnabledFor(18):
            log.log(18, "Using component config", extra={"config": to_yaml(self._expanded())})
        if self.server is not None:
            await self._start_server(self.server)
        self._spawn(self._flush_logs())
        if not self._settings.configuration.delay_cache_until_active or self.elector is None:
            await self._until_stopped(self._know_the_cluster())
        if self.elector is None:
            await self._until_stopped(self._schedule())
            log.error("finished without leader elect")
            return 1
        return await self._compete(self.elector)

    async def _start_server(self, server: OpsServer) -> None:
        try:
            await server.start()
        except OSError as problem:
            raise CommandError(f"cannot listen for HTTPS: {problem}") from None

    async def _know_the_cluster(self) -> None:
        """Returns when everything has been read once. Then the garbage collector need not look at it again
        and again: objects come and go by the thousands, and nearly none of them in circles."""
        started = time.monotonic()
        self.informers.start(self._spawn)
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

    async def _schedule(self) -> None:
        """Until stopped; pods on their way are given the time to arrive."""
        scheduling = self._spawn(self.live.run())
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({scheduling, stopping}, return_when=asyncio.FIRST_COMPLETED)
            self.live.stop()
            await scheduling
        finally:  # when the lease is lost, nothing more may be started
            stopping.cancel()
            scheduling.cancel()

    async def _compete(self, elector: LeaderElector) -> int:
        """Waits for the lease, schedules while it is held, and hands it over at the end."""
        name = self._settings.configuration.leader_election.resource_name
        began = False

        async def lead() -> None:
            nonlocal began
            began = True
            self.metrics.leading(name, True)
            if self._settings.configuration.delay_cache_until_active:
                await self._until_stopped(self._know_the_cluster())
            await self._schedule()

        self.metrics.leading(name, False)
        competing = asyncio.ensure_future(elector.run(lead))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({competing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not began and not competing.done():
                competing.cancel()
                await asyncio.gather(competing, return_exceptions=True)
                await elector.release()  # it may have come to us in this very moment
            else:
                await competing
        except LeaseLostError as problem:
            log.error("Leaderelection lost: %s", problem)
            self._patience = 0.0
            return 1
        finally:
            stopping.cancel()
            self.metrics.leading(name, False)
        log.info("Requested to terminate, exiting")
        return 0

    async def _until_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Returns when the work is done, or given up because the process has to end."""
        task = self._spawn(work)
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                await task
        finally:
            for each in (task, stopping):
                each.cancel()
            await asyncio.gather(task, stopping, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _flush_logs(self) -> None:
        while True:
            await asyncio.sleep(max(self._settings.flush_every, 0.1))
            self._logs.flush()

    # Signals

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked_to_end, number)
        loop.add_signal_handler(signal.SIGUSR2, lambda: self._spawn(self._dump()))

    def _asked_to_end(self, number: signal.Signals) -> None:
        if self._stopping.is_set():
            log.error("%s a second time: ending at once", number.name)
            self._logs.flush()
            os._exit(1)
        log.info("%s: ending", number.name)
        self._stopping.set()

    async def _dump(self) -> None:
        try:
            await dump(self.cluster, self.queue, self.informers.fetch)
        except ApiError as problem:
            log.warning("the cache could not be compared with the API server: %s", problem)

    async def close(self) -> None:
        """Ends what is still going on, in the order in which things depend on each other."""
        await self.recorder.close(self._patience)
        if self.server is not None:
            await self.server.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.core.close()
        for client in self._clients:
            await client.close()
