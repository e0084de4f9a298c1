"""One connection that speaks HTTP/1.1, one exchange at a time.

Written for thousands of small requests a second: an answer is a future that the parser's callbacks
complete, with no task, queue or stream object in between. Time limits are checked from outside
(`pool.Pool`), because a timer for each request would cost as much as the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httptools

from stowplan.kube.transport import Answer, DataSink

_OK = 200
BUFFER_SIZE = 256 << 10


class CutError(Exception):
    """The connection ended before the answer did."""


class Connection(asyncio.BufferedProtocol):
    """A connection and the exchange that is under way on it."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_lost: Callable[[Connection], None], buffer: memoryview
    ) -> None:
        """The buffer is for reading, and may be shared with other connections on the same loop: what was
        read is used up at once. Having asyncio make one for each read costs more than all the rest.
        """
        self._loop = loop
        self._buffer = buffer
        self._on_lost = on_lost
        self._transport: Any = None
        self._parser: Any = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[Answer] | None = None
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._sink: DataSink | None = None
        self._streams = False
        self._after_head = 0.0
        self.deadline = 0.0
        """When the exchange is given up, by the loop's clock."""
        self.idle_since = 0.0
        self.pooled = False
        """Whether it counts for the bound of its pool."""
        self.last_use = False
        """Whether to close it after this exchange."""

    # What the pool does

    @property
    def usable(self) -> bool:
        """Whether another request can be sent on it."""
        transport = self._transport
        return transport is not None and self._waiter is None and not transport.is_closing()

    @property
    def busy(self) -> bool:
        return self._waiter is not None

    @property
    def ssl_object(self) -> Any:
        return self._transport.get_extra_info("ssl_object") if self._transport is not None else None

    def exchange(self, request: bytes, deadline: float) -> asyncio.Future[Answer]:
        """Sends a request; the future gets the answer, or a CutError."""
        self.deadline = deadline
        self._waiter = waiter = self._loop.create_future()
        self._transport.write(request)
        return waiter

    def exchange_stream(
        self, request: bytes, sink: DataSink, deadline: float, idle_timeout: float
    ) -> asyncio.Future[Answer]:
        """Sends a request whose answer is fed to the sink, as long as each piece comes in time."""
        self._sink, self._after_head = sink, idle_timeout
        return self.exchange(request, deadline)

    def abort(self, why: str) -> None:
        """Ends the connection at once; an exchange under way fails."""
        self._fail(why)
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except httptools.HttpParserError as error:
            self.abort(f"the answer is not HTTP: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"the connection was cut: {exc}" if exc else "the server closed the connection")
        self._transport = self._parser = None  # the parser and this object refer to each other
        self._on_lost(self)

    # What the parser calls

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        if self._sink is not None and self._status == _OK:
            self._streams = True
            self.deadline = self._loop.time() + self._after_head

    def on_body(self, data: bytes) -> None:
        if not self._streams:
            self._body.append(data)
        elif self._sink is not None and self._waiter is not None:
            self.deadline = self._loop.time() + self._after_head
            try:
                self._sink(data)
            except Exception as error:  # noqa: BLE001 -- handed to whoever asked for the stream
                waiter, self._waiter = self._waiter, None
                if not waiter.done():
                    waiter.set_exception(error)
                self._transport.abort()

    def on_message_complete(self) -> None:
        status, headers, body = self._status, self._headers, self._body
        self._headers, self._body = [], []
        if status < _OK:  # an interim answer; the real one follows
            return
        waiter, self._waiter = self._waiter, None
        self._sink, self._streams = None, False
        if waiter is None:
            self.abort("an answer came that nobody asked for")
            return
        if self.last_use or not self._parser.should_keep_alive():
            self._transport.close()
        if not waiter.done():
            waiter.set_result(Answer(status, headers, body[0] if len(body) == 1 else b"".join(body)))

    def _fail(self, why: str) -> None:
        waiter, self._waiter = self._waiter, None
        self._sink = None
        if waiter is not None and not waiter.done():
            waiter.set_exception(CutError(why))
