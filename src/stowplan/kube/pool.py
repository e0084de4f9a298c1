"""A bounded set of kept-alive connections to one server.

Requests that find all connections busy wait in line. Streams (watches) have connections of their own,
outside the bound: a scheduler's watches never keep a binding waiting.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from stowplan.kube.errors import UncertainError, UnreachableError
from stowplan.kube.http1 import BUFFER_SIZE, Connection, CutError
from stowplan.kube.transport import Answer, DataSink

Connect: TypeAlias = Callable[[Callable[[], Connection]], Awaitable[Connection]]
"""Opens a connection for the protocol that the factory makes; raises OSError."""
Admit: TypeAlias = Callable[[str, str], None]
"""Is told method and path of a request in the moment in which it is sent, however long it has waited in line,
and raises what keeps it from being sent."""

_SWEEP = 0.5
_IDLE_LIMIT = 45.0  # less than any server's own, so that requests do not meet a closing connection
_CONNECT_TIMEOUT = 10.0


def anything(method: str, target: str) -> None:
    """Every request may be sent."""


class Pool:
    """A transport over HTTP/1.1. It belongs to the event loop it is first used in."""

    def __init__(
        self, connect: Connect, *, size: int = 32, path_prefix: str = "", admit: Admit = anything
    ) -> None:
        self._connect = connect
        self._admit = admit
        self._size = size
        self._prefix = path_prefix
        self._buffer = memoryview(bytearray(BUFFER_SIZE))
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()
        self._pooled = 0
        """Connections that count for the bound: open ones, and those being opened."""
        self._line: deque[asyncio.Future[Connection | None]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    async def send(
        self, method: str, target: str, headers: bytes, body: bytes = b"", *, timeout: float
    ) -> Answer:
        """See `Transport`."""
        if body:
            request = b"%b %b HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (
                method.encode(),
                (self._prefix + target).encode(),
                headers,
                len(body),
                body,
            )
        else:
            request = f"{method} {self._prefix}{target} HTTP/1.1\r\n".encode() + headers + b"\r\n"
        connection = self._pick() or await self._wait_for_one(method, target)
        try:
            self._admit(method, target)
            answer = await connection.exchange(request, self._time() + timeout)
        except CutError as error:
            raise UncertainError(str(error), request=f"{method} {target}") from None
        except BaseException:
            connection.abort("nobody waits for the answer any more")
            raise
        self._give_back(connection)
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
        """See `Transport`."""
        request = f"{method} {self._prefix}{target} HTTP/1.1\r\n".encode() + headers + b"\r\n"
        connection = await self._open(method, target)
        try:
            deadline = self._time() + timeout
            return await connection.exchange_stream(request, on_data, deadline, idle_timeout)
        except CutError as error:
            raise UncertainError(str(error), request=f"{method} {target}") from None
        finally:
            connection.abort("the stream is over")

    async def close(self) -> None:
        """Closes all connections; what is under way fails, and so does what comes later."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        while self._line:
            self._wake(None)
        for connection in list(self._all):
            connection.abort("the client was closed")
        self._idle.clear()
        await asyncio.sleep(0)  # the transports close their sockets in the next turn of the loop

    def renew(self) -> None:
        """Has no connection used again that is open now: who we were may not be welcome any more."""
        for connection in self._all:
            connection.last_use = True
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.abort("replaced")

    # Connections

    def _pick(self) -> Connection | None:
        """The connection that was used last, so that those not needed grow old and are closed."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        return None

    async def _wait_for_one(self, method: str, target: str) -> Connection:
        while True:
            if self._pooled < self._size:
                self._pooled += 1
                try:
                    connection = await self._open(method, target)
                except BaseException:
                    self._pooled -= 1
                    self._wake(None)
                    raise
                connection.pooled = True
                return connection
            turn: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
            self._line.append(turn)
            try:
                given = await turn
            except BaseException:
                if turn.done() and not turn.cancelled():
                    self._hand_on(turn.result())
                raise
            if self._closed:
                raise UnreachableError("the client was closed", request=f"{method} {target}")
            if given is not None and given.usable:
                return given

    async def _open(self, method: str, target: str) -> Connection:
        if self._closed:
            raise UnreachableError("the client was closed", request=f"{method} {target}")
        loop = self._loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                connection: Connection = await self._connect(
                    lambda: Connection(loop, self._lost, self._buffer)
                )
        except TimeoutError:
            message = f"no connection within {_CONNECT_TIMEOUT:.0f} s"
            raise UnreachableError(message, request=f"{method} {target}") from None
        except (OSError, ValueError) as error:
            raise UnreachableError(str(error) or repr(error), request=f"{method} {target}") from None
        self._all.add(connection)
        if self._sweeper is None:
            self._sweeper = loop.call_later(_SWEEP, self._sweep)
        return connection

    def _give_back(self, connection: Connection) -> None:
        if connection.usable:
            self._hand_on(connection)

    def _hand_on(self, connection: Connection | None) -> None:
        """To the first in line; without one it is idle."""
        if self._wake(connection) or connection is None:
            return
        connection.idle_since = self._time()
        self._idle.append(connection)

    def _wake(self, connection: Connection | None) -> bool:
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(connection)
                return True
        return False

    def _lost(self, connection: Connection) -> None:
        self._all.discard(connection)
        if connection.pooled:
            self._pooled -= 1
            self._wake(None)  # there is room for a new one

    def _time(self) -> float:
        assert self._loop is not None
        return self._loop.time()

    def _sweep(self) -> None:
        """Ends exchanges that take too long, and connections that nobody needs."""
        now = self._time()
        for connection in list(self._all):
            if connection.busy and connection.deadline < now:
                connection.abort("the answer took too long")
        for connection in self._idle:
            if connection.idle_since < now - _IDLE_LIMIT:
                connection.abort("idle")
        self._idle = [connection for connection in self._idle if connection.usable]
        self._sweeper = self._loop.call_later(_SWEEP, self._sweep) if self._all and self._loop else None
