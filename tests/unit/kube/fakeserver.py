"""An HTTP server inside the test's event loop that answers, stalls, lies and cuts as the test says."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any


class CutNow(Exception):  # noqa: N818 -- an order, not an error
    """Ends the connection without another byte."""


@dataclass
class Request:
    """What came in."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Exchange:
    """A request and the ways to answer it."""

    request: Request
    writer: asyncio.StreamWriter
    streaming: bool = False

    async def reply(self, status: int, body: Any = b"", headers: dict[str, str] | None = None) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(content)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        await self.raw("\r\n".join([*lines, "", ""]).encode() + content)

    async def start_stream(self) -> None:
        self.streaming = True
        await self.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

    async def piece(self, data: Any) -> None:
        content = data if isinstance(data, bytes) else json.dumps(data).encode() + b"\n"
        await self.raw(b"%x\r\n%b\r\n" % (len(content), content))

    async def end_stream(self) -> None:
        await self.raw(b"0\r\n\r\n")

    async def raw(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()


Handler = Callable[[Exchange], Awaitable[None]]


@dataclass
class FakeServer:
    """Running server; `handler` may be replaced at any time."""

    handler: Handler
    port: int = 0
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    scheme: str = "http"
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def cut_all(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def stop_listening(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut_all()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        self._writers.add(writer)
        try:
            while True:
                request = await _read(reader, number)
                self.requests.append(request)
                await self.handler(Exchange(request, writer))
        except (CutNow, asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()


async def _read(reader: asyncio.StreamReader, connection: int) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, target, headers, body, connection)


@contextlib.asynccontextmanager
async def serving(handler: Handler, context: ssl.SSLContext | None = None) -> AsyncIterator[FakeServer]:
    """A server for the time of a `with` block."""
    fake = FakeServer(handler, scheme="https" if context else "http")
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        await fake.serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    fake._server = server
    fake.port = server.sockets[0].getsockname()[1]
    try:
        yield fake
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)


async def ok(exchange: Exchange) -> None:
    """Answers everything with an empty object."""
    await exchange.reply(200, {})


async def eventually(condition: Callable[[], object], seconds: float = 15.0) -> None:
    """Waits until something holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 -- conditions are plain functions
            await asyncio.sleep(0.002)
