"""Time that passes only when everybody sleeps, so that hours take milliseconds."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")
_TURNS = 30  # of the loop, until everybody who can go on has gone on


class VirtualTime:
    """A clock and its sleep."""

    def __init__(self, start: float = 1000.0) -> None:
        self.now = start
        self.slept: list[float] = []
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, len(self.slept), done))
        await done

    async def pass_by(self, seconds: float) -> None:
        """Lets time go by, waking whoever sleeps on the way."""
        end = self.now + seconds
        while True:
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            while self._sleepers and self._sleepers[0][2].done():
                heapq.heappop(self._sleepers)
            if not self._sleepers or self._sleepers[0][0] > end:
                self.now = end
                return
            self.now, _, done = heapq.heappop(self._sleepers)
            done.set_result(None)

    async def finish(self, work: Awaitable[T], limit: float = 1000.0) -> T:
        """Lets time go by until something is done."""
        task = asyncio.ensure_future(work)
        end = self.now + limit
        while not task.done() and self.now < end:
            await self.pass_by(min(0.25, end - self.now))
        assert task.done(), f"not done after {limit} s"
        return task.result()
