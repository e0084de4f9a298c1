"""An event loop that takes in more at once when much happens.

Waking up costs more than what is done on most wake-ups: an answer to a binding is some microseconds of work,
but the process has to be scheduled for it and finds its caches cold. So while one thing comes right after
the other, the loop lets two milliseconds' worth gather before it looks. On the machine of an API server,
that is CPU time for the server. When little happens, nothing waits.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable

_GATHER = 0.002
_BUSY_GAP = 0.003
"""A wake-up this soon after the last one means that much is going on."""

Ready = list[tuple[selectors.SelectorKey, int]]


class GatheringSelector(selectors.DefaultSelector):
    """Waits a moment longer when it was woken a moment ago."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__()
        self._clock = clock
        self._pause = pause
        self._woken = 0.0

    def select(self, timeout: float | None = None) -> Ready:
        ready = super().select(timeout)
        # Without a timeout to wait out there is work to do in the loop: it must not be held up.
        if ready and (timeout is None or timeout > 0):
            now = self._clock()
            if now - self._woken < _BUSY_GAP:
                self._pause(_GATHER)
                ready = super().select(0)
                now = self._clock()
            self._woken = now
        return ready


def new_event_loop() -> asyncio.AbstractEventLoop:
    """For `asyncio.Runner(loop_factory=...)`."""
    return asyncio.SelectorEventLoop(GatheringSelector())
