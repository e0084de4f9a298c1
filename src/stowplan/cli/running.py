"""A scheduler as a process: everything is built here, connected, started in order and ended in order.

reflectors ──▶ feed ──▶ cluster, queue ──▶ live loop ──▶ planner ──▶ client ──▶ API server
                              └──▶ metrics, pages, dumps        └──▶ recorder ──▶ (a client of its own)
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import uuid

from stowplan import __version__
from stowplan.cli.informing import Informers
from stowplan.cli.main import CommandError
from stowplan.cli.process import Process, RunSettings
from stowplan.engine.feed import Feed
from stowplan.engine.live import LiveScheduler
from stowplan.kube.errors import ApiError
from stowplan.kube.kubeconfig import KubeconfigError
from stowplan.kube.leases import LeaderElector, LeaseLostError
from stowplan.kube.loop import new_event_loop
from stowplan.kube.planner import KubePlanner
from stowplan.kube.recorder import Recorder
from stowplan.ops.health import Check
from stowplan.ops.logs import Logs
from stowplan.ops.server import LookupFailedError

log = logging.getLogger(__name__)

_EVENTS_PATIENCE = 3.0
_LEASE_TOLERANCE = 20.0


def serve(settings: RunSettings) -> int:
    """Runs until told to end, and returns the exit code."""
    logs = Logs(settings.logs)
    logs.start()
    for words in settings.warnings:
        log.warning("%s", words)
    log.info("Starting stowplan", extra={"version": __version__, "python": sys.version.split()[0]})
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(_run(settings, logs))
    except (KubeconfigError, LookupFailedError) as problem:
        raise CommandError(str(problem)) from None
    finally:
        logs.flush()


async def _run(settings: RunSettings, logs: Logs) -> int:
    process = _build(settings, logs)
    try:
        return await process.run()
    finally:
        await process.close()


def _build(settings: RunSettings, logs: Logs) -> Process:
    from stowplan.cli.shadowing import ShadowProcess
    from stowplan.framework.registry import RegistryError

    try:
        return ShadowProcess(settings, logs) if settings.shadow else SchedulerProcess(settings, logs)
    except (ValueError, RegistryError) as problem:  # what only its user can put right: a URL, a plugin
        raise CommandError(str(problem)) from None


class SchedulerProcess(Process):
    """A scheduler that schedules."""

    def __init__(self, settings: RunSettings, logs: Logs) -> None:
        super().__init__(settings, logs)
        connection = settings.configuration.client_connection
        self._patience = _EVENTS_PATIENCE
        events = self.connect(connection.qps, connection.burst, connections=8)
        self.recorder = Recorder(events, host=socket.gethostname(), gives_way=self._more_important)
        self.elector = self._make_elector()
        planner = KubePlanner(self.client, self.recorder)
        self.build_core(planner)
        self.core.host.sleep = asyncio.sleep
        feed = Feed(self.cluster, self.queue, self.core.profiles, self.core.host.waiting)
        self.informers = Informers(self.client, settings.profiles, feed.observe)
        self.live = LiveScheduler(self.core, self.queue, planner, self.informers.pods, observer=self.metrics)
        self.informers.changed = self.live.wake
        self.metrics.sources.running = lambda: {"binding": self.live.binding}

    def _make_elector(self) -> LeaderElector | None:
        election = self.settings.configuration.leader_election
        if not election.leader_elect:
            return None
        return LeaderElector(
            self.connect(connections=2),
            identity=f"{socket.gethostname()}_{uuid.uuid4()}",
            namespace=election.resource_namespace,
            name=election.resource_name,
            lease_duration=election.lease_duration.seconds,
            renew_deadline=election.renew_deadline.seconds,
            retry_period=election.retry_period.seconds,
            on_new_leader=lambda leader: log.info("new leader", extra={"identity": leader}),
        )

    def _more_important(self) -> bool:
        """Whether there is more important to do than to write events."""
        return self.client.crowded or self.live.evictions.busy

    @property
    def is_leading(self) -> bool:
        return self.elector is None or self.elector.is_leader

    def admit(self, method: str, target: str) -> None:
        """Only who holds the lease may change anything. After a long stall another scheduler may act already,
        before this one has noticed, and requests may have waited in line all the time."""
        if method != "GET" and not self.is_leading:
            raise ApiError(0, "LeaseLost", "the lease is not held any more", request=f"{method} {target}")

    def election_checks(self) -> tuple[Check, ...]:
        elector = self.elector
        if elector is None:
            return ()
        return (Check("leaderElection", lambda: elector.problem(_LEASE_TOLERANCE)),)

    async def act(self) -> int:
        """The exit codes are kube-scheduler's."""
        elector = self.elector
        if elector is None:
            await self.until_stopped(self.know_the_cluster())
            await self._schedule()
            log.error("finished without leader elect")
            return 1
        if not self.settings.configuration.delay_cache_until_active:
            await self.until_stopped(self.know_the_cluster())
        return await self._compete(elector)

    async def _schedule(self) -> None:
        """Until stopped; pods on their way are given the time to arrive."""
        if self.stopping.is_set():
            return
        scheduling = self.spawn(self.live.run())
        stopping = asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait({scheduling, stopping}, return_when=asyncio.FIRST_COMPLETED)
            self.live.stop()
            await scheduling
        finally:  # when the lease is lost, nothing more may be started
            stopping.cancel()
            scheduling.cancel()

    async def _compete(self, elector: LeaderElector) -> int:
        """Waits for the lease, schedules while it is held, and hands it over at the end."""
        began = False

        async def lead() -> None:
            nonlocal began
            began = True
            self.metrics.leading(True)
            if self.settings.configuration.delay_cache_until_active:
                await self.until_stopped(self.know_the_cluster())
            await self._schedule()

        self.metrics.leading(False)
        competing = asyncio.ensure_future(elector.run(lead))
        stopping = asyncio.ensure_future(self.stopping.wait())
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
            self.metrics.leading(False)
        log.info("Requested to terminate, exiting")
        return 0

    async def close(self) -> None:
        await self.recorder.close(self._patience)
        await super().close()
