"""How many requests a second: the client's QPS and burst."""

from __future__ import annotations

from collections.abc import Awaitable, Callable


class TokenBucket:
    """Lets `burst` through at once and `qps` a second from then on. Others wait in order."""

    def __init__(
        self,
        qps: float,
        burst: int,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._qps = qps
        self._burst = float(max(burst, 1))
        self._clock = clock
        self._sleep = sleep
        self._tokens = self._burst
        self._filled = clock()

    def take(self) -> bool:
        """Whether the request may go now."""
        if self._qps <= 0:  # as upstream, a QPS below zero is no limit
            return True
        self._fill()
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    async def wait(self) -> None:
        """Returns when the request may go."""
        if self.take():
            return
        # Going below zero is what puts those who come later behind us.
        self._tokens -= 1.0
        try:
            await self._sleep(-self._tokens / self._qps)
        except BaseException:
            self._tokens += 1.0
            raise

    def _fill(self) -> None:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._qps)
        self._filled = now
