"""`stowplan run --shadow`: follows another scheduler, and tells what it would have done differently."""

from __future__ import annotations

import asyncio
import logging
import signal

import msgspec

from stowplan.cli.informing import Informers
from stowplan.cluster import Cluster
from stowplan.config.types import KubeSchedulerConfiguration
from stowplan.engine.feed import Feed
from stowplan.engine.scheduler import Scheduler
from stowplan.engine.shadow import Difference, Shadow
from stowplan.framework.profile import ProfilePlan
from stowplan.framework.registry import discover
from stowplan.kube.client import ApiClient
from stowplan.kube.kubeconfig import load_access
from stowplan.plugins import IN_TREE
from stowplan.queue.queue import SchedulingQueue

log = logging.getLogger(__name__)

_LOOK_AGAIN = 0.25


class ShadowProcess:
    """All parts of a shadow: informers, the core, no write side."""

    def __init__(
        self, configuration: KubeSchedulerConfiguration, profiles: tuple[ProfilePlan, ...], master: str
    ) -> None:
        connection = configuration.client_connection
        access = load_access(connection.kubeconfig, master=master)
        self._client = ApiClient(access, qps=connection.qps, burst=connection.burst)
        cluster = Cluster()
        loop = asyncio.get_running_loop()
        core = Scheduler(cluster, configuration, registry=discover(IN_TREE), now=loop.time)
        queue = SchedulingQueue(core.profiles, cluster.nominations, loop.time)
        self.shadow = Shadow(core, queue, Feed(cluster, queue, core.profiles), report)
        self._informers = Informers(self._client, profiles, self.shadow.observe)

    async def run(self) -> int:
        """Until SIGTERM or SIGINT; then says how it went."""
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        tasks: set[asyncio.Task[None]] = set()
        self._informers.start(lambda work: tasks.add(asyncio.ensure_future(work)))
        try:
            await asyncio.wait(
                (asyncio.ensure_future(self._informers.settled()), asyncio.ensure_future(stopping.wait())),
                return_when=asyncio.FIRST_COMPLETED,
            )
            log.info("Shadowing", extra={"schedulers": ", ".join(self.shadow.scheduler_names)})
            while not stopping.is_set():
                self.shadow.advance()
                await asyncio.sleep(_LOOK_AGAIN)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._client.close()
        tally = self.shadow.tally
        log.info(
            "Shadow ends",
            extra={
                "placed": tally.placed,
                "rejected": tally.rejected,
                "differences": len(tally.differences),
                "unseen": self.shadow.waiting,
            },
        )
        return 0


def report(difference: Difference) -> None:
    """One line for people, and the whole account as JSON behind it."""
    log.warning("%s", difference, extra={"trace": msgspec.json.encode(difference.trace).decode()})
