"""`stowplan run --shadow`: follows another scheduler, and tells what it would have done differently."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from stowplan.cli.informing import Informers
from stowplan.cli.process import Process, RunSettings
from stowplan.engine.feed import Feed
from stowplan.engine.shadow import Difference, Shadow
from stowplan.engine.trace import as_data
from stowplan.kube.transport import Answer, Transport
from stowplan.ops.logs import Logs

log = logging.getLogger(__name__)

_LOOK_AGAIN = 0.25


class ReadOnlyTransport:
    """A transport that cannot change anything, whatever asks it to."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.stream = inner.stream
        self.renew = inner.renew
        self.close = inner.close

    async def send(
        self, method: str, target: str, headers: bytes, body: bytes = b"", *, timeout: float
    ) -> Answer:
        if method != "GET":
            raise PermissionError(f"{method} {target}: a shadow only reads")
        return await self._inner.send(method, target, headers, body, timeout=timeout)


class ShadowProcess(Process):
    """A scheduler that only looks on."""

    def transport(self, *, connections: int) -> Transport:
        return ReadOnlyTransport(super().transport(connections=connections))

    def __init__(self, settings: RunSettings, logs: Logs) -> None:
        super().__init__(settings, logs)
        # What decides gets no client at all, and the one that informs cannot write.
        self.build_core()
        feed = Feed(self.cluster, self.queue, self.core.profiles, self.core.host.waiting)
        self.shadow = Shadow(self.core, self.queue, feed, report)
        self.informers = Informers(self.client, settings.profiles, self.shadow.observe)

    async def act(self) -> int:
        """Looks on until told to end, and says how it went; the exit code says nothing about differences."""
        await self.until_stopped(self.know_the_cluster())
        log.info("Shadowing", extra={"schedulers": ", ".join(self.shadow.scheduler_names)})
        await self.until_stopped(self._advance())
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

    async def _advance(self) -> None:
        while True:
            self.shadow.advance()
            await asyncio.sleep(_LOOK_AGAIN)


def report(difference: Difference) -> None:
    """One line for people, and the whole account as JSON behind it."""
    log.warning("%s", difference, extra={"trace": msgspec.json.encode(as_data(difference.trace)).decode()})
