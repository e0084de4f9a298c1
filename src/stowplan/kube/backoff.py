"""How long to wait before the next attempt."""

from __future__ import annotations

from collections.abc import Callable


class Backoff:
    """Delays that grow with every failure, each made longer by chance so that clients do not act in step."""

    def __init__(
        self, first: float, longest: float, random: Callable[[], float], *, factor: float = 2.0
    ) -> None:
        self._first = first
        self._longest = longest
        self._factor = factor
        self._random = random
        self._next = first

    def next(self) -> float:
        """The delay after one more failure."""
        delay = self._next * (1.0 + self._random())
        self._next = min(self._next * self._factor, self._longest)
        return delay

    def reset(self) -> None:
        """After a success."""
        self._next = self._first
