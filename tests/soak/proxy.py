"""A proxy between one scheduler and the API server that lets bad things happen, and writes down what passes.

The scheduler speaks plain HTTP/1.1 to it, one request at a time on each connection; each connection has its
own to the server. A rule says what happens to the requests it matches. What is logged, is logged when
the request has come in whole: a scheduler that binds has then long decided to.
"""

from __future__ import annotations

import asyncio
import enum
import json
import socket
import ssl
import struct
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import httptools

_NO_LINGERING = struct.pack("ii", 1, 0)
_GONE = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "reason": "Expired",
    "code": 410,
    "message": "too old resource version: 1 (2)",
}


@dataclass(frozen=True)
class Request:
    """One request of a scheduler."""

    method: str
    path: str
    query: str
    body: bytes
    at: float
    """When it had come in, by the monotonic clock."""

    @property
    def is_watch(self) -> bool:
        return self.method == "GET" and "watch=" in self.query

    @property
    def is_bind(self) -> bool:
        return self.method == "POST" and self.path.endswith("/binding")

    @property
    def is_lease(self) -> bool:
        return "/coordination.k8s.io/" in self.path

    def json(self) -> dict[str, Any]:
        decoded: dict[str, Any] = json.loads(self.body)
        return decoded


class Treatment(enum.Enum):
    """What can happen to a request, beside being answered by the proxy itself."""

    PASS = "passed on"
    CUT_BEFORE = "cut before the server saw it"
    CUT_AFTER = "cut after the server answered"
    HOLD = "held back"


@dataclass(frozen=True)
class Answer:
    """What the proxy says in the server's place."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()

    def encoded(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}", "Content-Type: application/json"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        lines += [f"Content-Length: {len(self.body)}", "", ""]
        return "\r\n".join(lines).encode() + self.body


def refusal(status: int, *, retry_after: int | None = None, message: str = "injected by the test") -> Answer:
    """The answer of a server in trouble."""
    reason = HTTPStatus(status).phrase.replace(" ", "")
    said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status}
    body = json.dumps({**said, "reason": reason, "message": message}).encode()
    return Answer(status, body, (("Retry-After", str(retry_after)),) if retry_after is not None else ())


def expired(*, in_stream: bool) -> Answer:
    """What is said to a watch from a version that the server has forgotten: at once, or as an event."""
    if not in_stream:
        return Answer(410, json.dumps(_GONE).encode())
    return Answer(200, json.dumps({"type": "ERROR", "object": _GONE}).encode() + b"\n")


@dataclass
class Rule:
    """What happens to requests that match, so many times (None: until it is removed)."""

    matches: Callable[[Request], bool]
    treatment: Treatment | Answer
    times: int | None = None
    used: int = 0

    @property
    def used_up(self) -> bool:
        return self.times is not None and self.used >= self.times


@dataclass
class Exchange:
    """A request and what became of it."""

    request: Request
    treatment: Treatment | Answer
    status: int | None = None
    """What the server itself answered; None when it did not."""


class Listener:
    """Whoever wants to know what passes."""

    def arrived(self, replica: str, exchange: Exchange) -> None:
        """A request came in, and it is decided what happens to it."""

    def answered(self, replica: str, exchange: Exchange) -> None:
        """The server answered, whether or not the scheduler gets to know."""


@dataclass
class Proxy:
    """One scheduler's way to the server."""

    replica: str
    server: tuple[str, int]
    trust: ssl.SSLContext | None
    listener: Listener = field(default_factory=Listener)
    clock: Callable[[], float] = time.monotonic
    port: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    """How many requests had which fate."""
    rules: list[Rule] = field(default_factory=list)
    _connections: set[_Client] = field(default_factory=set)
    _listening: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    # Listening

    async def listen(self) -> None:
        """Takes connections, always on the same port."""
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(lambda: _Client(self), "127.0.0.1", self.port)
        self.port = self._listening.sockets[0].getsockname()[1]

    async def refuse_connections(self) -> None:
        """As if no server was there: who connects is refused, and who is connected is cut off."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        self.cut_all()
        await asyncio.sleep(0)

    async def close(self) -> None:
        await self.refuse_connections()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # What can be done to it

    def add(
        self, matches: Callable[[Request], bool], treatment: Treatment | Answer, times: int | None = None
    ) -> Rule:
        rule = Rule(matches, treatment, times)
        self.rules.append(rule)
        return rule

    def remove(self, rule: Rule) -> None:
        """Ends a rule. What it held back is cut off."""
        if rule in self.rules:
            self.rules.remove(rule)
        for connection in list(self._connections):
            if connection.held_by is rule:
                connection.abort()

    def cut_all(self) -> int:
        """Cuts all connections, whatever is under way on them."""
        connections = list(self._connections)
        for connection in connections:
            connection.abort()
        return len(connections)

    def end_watches(self, *, politely: bool) -> int:
        """Ends all watches, as the server does after a while (politely), or by cutting them off."""
        watches = [each for each in self._connections if each.watches]
        for connection in watches:
            if politely:
                connection.end_watch()
            else:
                connection.abort()
        return len(watches)

    @property
    def watches(self) -> int:
        return sum(each.watches for each in self._connections)

    # What connections ask

    def judge(self, request: Request) -> tuple[Exchange, Rule | None]:
        for rule in self.rules:
            if not rule.used_up and rule.matches(request):
                rule.used += 1
                exchange = Exchange(request, rule.treatment)
                break
        else:
            rule, exchange = None, Exchange(request, Treatment.PASS)
        fate = exchange.treatment
        self.counts[fate.value if isinstance(fate, Treatment) else f"answered {fate.status}"] += 1
        self.listener.arrived(self.replica, exchange)
        return exchange, rule

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def connected(self, connection: _Client) -> None:
        self._connections.add(connection)

    def disconnected(self, connection: _Client) -> None:
        self._connections.discard(connection)


class _Client(asyncio.Protocol):
    """A connection of the scheduler."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.held_by: Rule | None = None
        self.watches = False
        self._transport: asyncio.Transport | None = None
        self._parser: Any = httptools.HttpRequestParser(self)
        self._raw: list[bytes] = []
        self._target = b""
        self._body: list[bytes] = []
        self._complete = False
        self._server: _Server | None = None
        self._at_line_end = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.proxy.connected(self)

    def data_received(self, data: bytes) -> None:
        self._raw.append(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.abort()
            return
        if self._complete:
            self._complete = False
            self._take_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self.watches = False
        self.proxy.disconnected(self)
        if self._server is not None:
            self._server.abort()
        self._parser = None

    # What the parser calls

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._complete = True

    # What happens to a request

    def _take_request(self) -> None:
        path, _, query = self._target.decode().partition("?")
        method = self._parser.get_method().decode()
        request = Request(method, path, query, b"".join(self._body), self.proxy.clock())
        raw = b"".join(self._raw)
        self._raw, self._target, self._body = [], b"", []
        exchange, rule = self.proxy.judge(request)
        match exchange.treatment:
            case Treatment.CUT_BEFORE:
                self.abort()
            case Treatment.HOLD:
                self.held_by = rule
            case Answer() as answer:
                self.write(answer.encoded())
            case _:
                self.proxy.spawn(self._pass_on(exchange, raw))

    async def _pass_on(self, exchange: Exchange, raw: bytes) -> None:
        if self._server is None:
            loop = asyncio.get_running_loop()
            host, port = self.proxy.server
            try:
                _, self._server = await loop.create_connection(
                    lambda: _Server(self), host, port, ssl=self.proxy.trust
                )
            except OSError:
                self.abort()
                return
        if self._transport is None or self._transport.is_closing():
            self._server.abort()
        else:
            self._server.send(exchange, raw)

    # What the server's side calls

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def write_piece(self, data: bytes) -> None:
        """A piece of a watch, as a chunk of its own: so a watch can be ended between two lines."""
        self._at_line_end = data.endswith(b"\n")
        self.write(b"%x\r\n%b\r\n" % (len(data), data))

    def answered(self, exchange: Exchange) -> None:
        self.watches = False
        self.proxy.listener.answered(self.proxy.replica, exchange)

    def end_watch(self) -> None:
        if not self._at_line_end:
            self.abort()
            return
        self.watches = False
        self.write(b"0\r\n\r\n")
        if self._server is not None:
            self._server.forget_client()
            self._server.abort()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """With a reset, so that even what was sent may not arrive."""
        if self._transport is not None and not self._transport.is_closing():
            plain = self._transport.get_extra_info("socket")
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGERING)
            self._transport.abort()


class _Server(asyncio.Protocol):
    """The connection to the server that belongs to one of the scheduler's."""

    def __init__(self, client: _Client) -> None:
        self._client: _Client | None = client
        self._transport: asyncio.Transport | None = None
        self._parser: Any = httptools.HttpResponseParser(self)
        self._exchange: Exchange | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._streams = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self, exchange: Exchange, raw: bytes) -> None:
        self._exchange, self._streams = exchange, False
        if self._transport is not None:
            self._transport.write(raw)

    def data_received(self, data: bytes) -> None:
        exchange = self._exchange
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.abort()
            return
        if self._streams or self._client is None:
            return
        if exchange is not None and exchange.treatment is Treatment.CUT_AFTER:
            if exchange.status is not None:
                self._client.abort()
            return
        self._client.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._client is not None:
            self._client.abort()
        self._parser = None

    def forget_client(self) -> None:
        self._client = None

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # What the parser calls

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status, headers, self._headers = self._parser.get_status_code(), self._headers, []
        if self._exchange is None or not self._exchange.request.is_watch or status != 200:
            return
        self._streams = True
        if self._client is not None:
            self._client.watches = True
            head = b"".join(b"%b: %b\r\n" % header for header in headers)
            self._client.write(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n")

    def on_body(self, data: bytes) -> None:
        if self._streams and self._client is not None:
            self._client.write_piece(data)

    def on_message_complete(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is None or self._client is None:
            return
        exchange.status = self._parser.get_status_code()
        if self._streams:
            self._client.write(b"0\r\n\r\n")
        self._client.answered(exchange)
