"""Counts and times the requests to the API server, between the client and its connections."""

from __future__ import annotations

import time

from stowplan.kube.errors import ApiError
from stowplan.kube.transport import Answer, DataSink, Transport
from stowplan.ops.metrics import SchedulerMetrics

_NO_ANSWER = "<error>"


class MeasuredTransport:
    """A transport that tells the metrics about every request."""

    def __init__(self, inner: Transport, host: str, metrics: SchedulerMetrics) -> None:
        self._inner = inner
        self._host = host
        self._requested = metrics.requested
        self.renew = inner.renew
        self.close = inner.close

    async def send(
        self, method: str, target: str, headers: bytes, body: bytes = b"", *, timeout: float
    ) -> Answer:
        started = time.perf_counter()
        try:
            answer = await self._inner.send(method, target, headers, body, timeout=timeout)
        except ApiError:
            self._requested(method, self._host, _NO_ANSWER, time.perf_counter() - started)
            raise
        self._requested(method, self._host, answer.status, time.perf_counter() - started)
        return answer

    async def stream(
        self,
        method: str,
        target: str,
        headers: bytes,
        on_data: DataSink,
        *,
        timeout: float,
        idle_timeout: float,
    ) -> Answer:
        """Streams are counted when they end, and not timed: they last as long as they are wanted."""
        try:
            answer = await self._inner.stream(
                method, target, headers, on_data, timeout=timeout, idle_timeout=idle_timeout
            )
        except ApiError:
            self._requested(method, self._host, _NO_ANSWER, None)
            raise
        self._requested(method, self._host, answer.status, None)
        return answer
