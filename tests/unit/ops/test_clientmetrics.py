from __future__ import annotations

import asyncio

import pytest

from stowplan.kube.errors import UnreachableError
from stowplan.kube.transport import Answer, DataSink
from stowplan.ops.clientmetrics import MeasuredTransport
from stowplan.ops.metrics import SchedulerMetrics


class FakeTransport:
    """Answers with a status, or not at all."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.renewed = self.closed = False

    async def send(
        self, method: str, target: str, headers: bytes, body: bytes = b"", *, timeout: float
    ) -> Answer:
        return await self._answer()

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
        on_data(b"data")
        return await self._answer()

    async def _answer(self) -> Answer:
        if not self.status:
            raise UnreachableError("nobody is there")
        return Answer(self.status, (), b"body")

    def renew(self) -> None:
        self.renewed = True

    async def close(self) -> None:
        self.closed = True


def test_requests_and_streams_are_counted_and_handed_through() -> None:
    async def test() -> None:
        metrics, inner = SchedulerMetrics(), FakeTransport(200)
        transport = MeasuredTransport(inner, "api:6443", metrics)
        answer = await transport.send("GET", "/x", b"", timeout=1)
        assert answer.body == b"body"
        seen: list[bytes] = []
        await transport.stream("GET", "/x", b"", seen.append, timeout=1, idle_timeout=1)
        assert seen == [b"data"]
        transport.renew()
        await transport.close()
        assert inner.renewed
        assert inner.closed
        text = metrics.render().decode()
        assert 'rest_client_requests_total{code="200",host="api:6443",method="GET"} 2.0' in text
        assert 'rest_client_request_duration_seconds_count{host="api:6443",verb="GET"} 1.0' in text

    asyncio.run(test())


def test_what_is_not_answered_is_counted_as_an_error() -> None:
    async def test() -> None:
        metrics = SchedulerMetrics()
        transport = MeasuredTransport(FakeTransport(0), "api", metrics)
        with pytest.raises(UnreachableError):
            await transport.send("POST", "/x", b"", timeout=1)
        with pytest.raises(UnreachableError):
            await transport.stream("GET", "/x", b"", print, timeout=1, idle_timeout=1)
        text = metrics.render().decode()
        assert 'rest_client_requests_total{code="<error>",host="api",method="POST"} 1.0' in text
        assert 'rest_client_requests_total{code="<error>",host="api",method="GET"} 1.0' in text

    asyncio.run(test())
