"""A small HTTP/1.1 server for probes and scrapes: a few requests a second, each answered by one function.

It is careful with what comes from outside: sizes, times and the number of connections are bounded.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

import httptools

log = logging.getLogger(__name__)

PLAIN = "text/plain; charset=utf-8"
JSON = "application/json"

_MOST_HEAD = 64 << 10
_MOST_BODY = 1 << 20
_MOST_CONNECTIONS = 256
_HEAD_TIMEOUT = 32.0
_IDLE_TIMEOUT = 90.0
_HANDSHAKE_TIMEOUT = 10.0
_DRAIN_TIMEOUT = 30.0


@dataclass
class Request:
    """What a client asks for."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes = b""
    client: str = ""
    """The address it came from."""
    tls: Any = None
    """The connection's ssl.SSLObject."""
    path: str = field(init=False)
    query: dict[str, list[str]] = field(init=False)

    def __post_init__(self) -> None:
        # after two slashes, a URL would have a host
        parts = urlsplit(f"//{self.target}" if self.target.startswith("/") else self.target)
        self.path = unquote(parts.path)
        self.query = parse_qs(parts.query, keep_blank_values=True)

    def all(self, name: str) -> list[str]:
        """All values of a header; names are compared without case."""
        wanted = name.lower()
        return [value for each, value in self.headers if each == wanted]

    def header(self, name: str) -> str:
        """The first value of a header, empty when there is none."""
        return next(iter(self.all(name)), "")


@dataclass
class Response:
    """What the client gets. A body in pieces is made while it is sent."""

    status: int = 200
    body: bytes | Iterator[bytes] = b""
    content_type: str = PLAIN
    headers: tuple[tuple[str, str], ...] = ()


def text(words: str, status: int = 200) -> Response:
    """A line or more for people."""
    return Response(status, words.encode(), headers=(("X-Content-Type-Options", "nosniff"),))


Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


class HttpServer:
    """Listens, and has each request answered by the handler."""

    def __init__(self, handler: Handler, context: Callable[[], ssl.SSLContext] | None = None) -> None:
        """`context` is asked at every connection, so that certificates can change; None: no TLS."""
        self.handler = handler
        self._context = context
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(
        self, host: str | None, port: int, *, share_address: bool = False, share_port: bool = False
    ) -> None:
        """Raises OSError when the address cannot be had."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Arrival(self),
            host,
            port,
            reuse_address=share_address or None,
            reuse_port=share_port or None,
            backlog=128,
        )

    @property
    def ports(self) -> list[int]:
        """Where it listens."""
        assert self._server is not None
        return [listener.getsockname()[1] for listener in self._server.sockets]

    async def stop(self, patience: float = 5.0) -> None:
        """No more connections; requests under way may end."""
        if self._server is None:
            return
        self._server.close()
        for connection in list(self._connections):
            connection.close_when_idle()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=patience)
        for connection in list(self._connections):
            connection.abort()
        for task in list(self._tasks):
            task.cancel()

    # For connections

    @property
    def full(self) -> bool:
        return len(self._connections) >= _MOST_CONNECTIONS

    def welcome(self, transport: asyncio.Transport) -> None:
        """A new connection: first its handshake, then its requests."""
        connection = _Connection(self)
        self._connections.add(connection)
        if self._context is None:
            transport.set_protocol(connection)
            connection.connection_made(transport)
        else:
            self.spawn(self._shake_hands(transport, connection, self._context))

    async def _shake_hands(
        self, transport: asyncio.Transport, connection: _Connection, context: Callable[[], ssl.SSLContext]
    ) -> None:
        try:
            secured = await asyncio.get_running_loop().start_tls(
                transport, connection, context(), server_side=True, ssl_handshake_timeout=_HANDSHAKE_TIMEOUT
            )
        except (OSError, ValueError) as problem:  # a port scan, a client that does not trust us
            log.debug("TLS handshake failed: %s", problem)
            self.forget(connection)
            transport.abort()
            return
        if secured is None:  # the client left meanwhile
            self.forget(connection)
        else:
            connection.connection_made(secured)

    def forget(self, connection: _Connection) -> None:
        self._connections.discard(connection)

    def spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Arrival(asyncio.Protocol):
    """A connection of which nothing has been read yet."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        if self._server.full:
            transport.abort()
            return
        transport.pause_reading()
        self._server.welcome(transport)
        if transport.get_protocol() is not self:
            transport.resume_reading()


class _Connection(asyncio.Protocol):
    """One client's requests, one after the other."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._early: list[bytes] = []
        """What came with the handshake, before there was anybody to read it."""
        self._lost = False
        self._busy = False
        self._closing = False
        self._timer: asyncio.TimerHandle | None = None
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._reset()

    def _reset(self) -> None:
        self._target = b""
        self._headers: list[tuple[str, str]] = []
        self._body: list[bytes] = []
        self._head_size = self._body_size = 0

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        if self._lost:
            return
        self._transport = transport
        self._parser = httptools.HttpRequestParser(self)
        self._expect_within(_HEAD_TIMEOUT)
        early, self._early = self._early, []
        for data in early:
            self.data_received(data)

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            self._early.append(data)
            return
        if self._parser is None:
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserUpgrade, httptools.HttpParserError):
            self._refuse(HTTPStatus.BAD_REQUEST)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._expect_within(None)
        self._resumed.set()
        self._transport = self._parser = None
        self._server.forget(self)

    def pause_writing(self) -> None:
        self._resumed.clear()

    def resume_writing(self) -> None:
        self._resumed.set()

    # What the parser calls

    def on_url(self, url: bytes) -> None:
        self._target += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))
        self._count_head(len(name) + len(value))

    def on_body(self, data: bytes) -> None:
        self._body_size += len(data)
        if self._body_size > _MOST_BODY:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        else:
            self._body.append(data)

    def on_message_complete(self) -> None:
        if self._parser is None or self._transport is None:
            return
        if self._busy:  # pipelining: nobody who probes or scrapes does that
            self._refuse(HTTPStatus.BAD_REQUEST)
            return
        self._expect_within(None)
        peer = self._transport.get_extra_info("peername")
        try:
            request = Request(
                self._parser.get_method().decode("latin-1"),
                self._target.decode("latin-1"),
                self._headers,
                b"".join(self._body),
                f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "",
                self._transport.get_extra_info("ssl_object"),
            )
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST)
            return
        keep = self._parser.should_keep_alive()
        self._busy = True
        self._reset()
        self._server.spawn(self._answer(request, keep))

    # Answers

    async def _answer(self, request: Request, keep: bool) -> None:
        try:
            response = await self._server.handler(request)
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            response = text("Internal Server Error\n", HTTPStatus.INTERNAL_SERVER_ERROR)
        keep = keep and not self._closing
        try:
            await self._send(response, request.method == "HEAD", keep)
        except Exception:
            log.exception("%s %s: the answer could not be made", request.method, request.path)
            self.abort()  # a cut answer must not look like a whole one
        self._busy = False
        if self._transport is not None:
            if keep and not self._closing:
                self._expect_within(_IDLE_TIMEOUT)
            else:
                self._transport.close()

    async def _send(self, response: Response, head_only: bool, keep: bool) -> None:
        body = response.body
        lines = [
            f"HTTP/1.1 {response.status} {_phrase(response.status)}",
            f"Content-Type: {response.content_type}",
            "Cache-Control: no-cache, private",
            *(f"{name}: {value}" for name, value in response.headers),
            f"Content-Length: {len(body)}" if isinstance(body, bytes) else "Transfer-Encoding: chunked",
        ]
        if not keep:
            lines.append("Connection: close")
        head = "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")
        if isinstance(body, bytes):
            self._write(head if head_only else head + body)
            return
        self._write(head)
        if head_only:
            return
        for piece in body:
            if piece:
                self._write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await asyncio.sleep(0)  # a long page must not hold up the scheduling
            async with asyncio.timeout(_DRAIN_TIMEOUT):
                await self._resumed.wait()
            if self._transport is None:
                return
        self._write(b"0\r\n\r\n")

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _refuse(self, status: HTTPStatus) -> None:
        """What came is no request that we answer; who knows what follows, so the connection ends."""
        if self._parser is None:
            return
        self._parser = None
        if self._transport is not None:
            phrase = f"{status.value} {status.phrase}"
            self._write(
                f"HTTP/1.1 {phrase}\r\nContent-Type: {PLAIN}\r\nConnection: close\r\n"
                f"Content-Length: {len(phrase)}\r\n\r\n{phrase}".encode()
            )
            self._transport.close()

    def _count_head(self, size: int) -> None:
        self._head_size += size
        if self._head_size > _MOST_HEAD:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    # The end

    def close_when_idle(self) -> None:
        self._closing = True
        if not self._busy and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _expect_within(self, seconds: float | None) -> None:
        """Whole requests have to come in time; None: nothing is expected now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
