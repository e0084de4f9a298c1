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
from stowplan.ops.logs import Logs

log = logging.getLogger(__name__)

_LOOK_AGAIN = 0.25


class ShadowProcess(Process):
    """A scheduler that only looks on."""

    def __init__(self, settings: RunSettings, logs: Logs) -> None:
        super().__init__(settings, logs)
        # What decides gets no client at all, and the one that informs cannot write.
        self.build_core()
        feed = Feed(self.cluster, self.queue, self.core.profiles, self.core.host.waiting)
        self.shadow = Shadow(self.core, self.queue, feed, report)
        self.informers = Informers(self.client, settings.profiles, self.shadow.observe)

    def admit(self, method: str, target: str) -> None:
        """Nothing can be changed, whatever asks for it."""
        if method != "GET":
            raise PermissionError(f"{method} {target}: a shadow only reads")

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
