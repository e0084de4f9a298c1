"""Answers that are good for a while."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MOST = 4096


class Remembered(Generic[K, V]):
    """What was found out, for as long as it may be believed. Bounded: outsiders choose the keys."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[K, tuple[float, V]] = {}

    def get(self, key: K) -> V | None:
        found = self._known.get(key)
        if found is None:
            return None
        if found[0] <= self._clock():
            del self._known[key]
            return None
        return found[1]

    def put(self, key: K, value: V, seconds: float) -> None:
        if seconds <= 0:
            return
        self._known.pop(key, None)
        if len(self._known) >= _MOST:
            del self._known[next(iter(self._known))]
        self._known[key] = (self._clock() + seconds, value)
