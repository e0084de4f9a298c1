"""The proxy between scheduler and API server does to requests what it is told to, and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from tests.soak.proxy import Answer, Exchange, Listener, Proxy, Request, Treatment, expired, refusal

BIND = "/api/v1/namespaces/default/pods/web/binding"
EVENT = b'{"type":"ADDED","object":{}}\n'


@dataclass
class Log(Listener):
    arrivals: list[Exchange] = field(default_factory=list)
    answers: list[Exchange] = field(default_factory=list)

    def arrived(self, replica: str, exchange: Exchange) -> None:
        self.arrivals.append(exchange)

    def answered(self, replica: str, exchange: Exchange) -> None:
        self.answers.append(exchange)


@dataclass
class FakeServer:
    """Answers a watch with an event every 10 ms, everything else with what it was asked."""

    seen: list[bytes] = field(default_factory=list)
    piece: bytes = EVENT
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (
                        int(line[15:])
                        for line in head.split(b"\r\n")
                        if line.lower().startswith(b"content-length")
                    ),
                    0,
                )
                body = await reader.readexactly(length)
                self.seen.append(head.split(b"\r\n")[0])
                if b"watch=" in head:
                    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                    while True:
                        writer.write(b"%x\r\n%b\r\n" % (len(self.piece), self.piece))
                        await writer.drain()
                        await asyncio.sleep(0.01)
                writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass


@dataclass
class World:
    proxy: Proxy
    server: FakeServer
    log: Log
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.proxy.port)
        self.writers.append(writer)
        return reader, writer


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    fake, log = FakeServer(), Log()
    real = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    address = real.sockets[0].getsockname()
    proxy = Proxy("a", (address[0], address[1]), None, log)
    await proxy.listen()
    made = World(proxy, fake, log)
    try:
        yield made
    finally:
        await proxy.close()
        real.close()
        for writer in (*made.writers, *fake.writers):
            writer.transport.abort()
        await asyncio.sleep(0.02)


def run(scenario: Callable[[World], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with world() as made:
            async with asyncio.timeout(10):
                await scenario(made)

    asyncio.run(whole())


async def ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, method: str, target: str, body: bytes = b""
) -> tuple[int, bytes, bytes]:
    """Status, head, body."""
    writer.write(
        f"{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    )
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0
    )
    return int(head.split()[1]), head, await reader.readexactly(length)


def is_bind(request: Request) -> bool:
    return request.is_bind


def test_requests_and_answers_pass_unchanged_on_one_connection() -> None:
    async def scenario(world: World) -> None:
        reader, writer = await world.dial()
        for i in range(3):
            body = json.dumps({"number": i}).encode() * 1000
            assert (await ask(reader, writer, "POST", BIND, body))[::2] == (201, body)
        assert [each.status for each in world.log.answers] == [201] * 3
        assert world.log.arrivals[0].request.body == json.dumps({"number": 0}).encode() * 1000
        assert world.proxy.counts == {"passed on": 3}

    run(scenario)


def test_a_bind_is_cut_before_the_server_sees_it() -> None:
    async def scenario(world: World) -> None:
        world.proxy.add(is_bind, Treatment.CUT_BEFORE, times=1)
        reader, writer = await world.dial()
        assert (await ask(reader, writer, "POST", "/elsewhere"))[0] == 201
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await ask(reader, writer, "POST", BIND)
        assert world.server.seen == [b"POST /elsewhere HTTP/1.1"]
        assert [each.status for each in world.log.arrivals] == [201, None]
        reader, writer = await world.dial()
        assert (await ask(reader, writer, "POST", BIND))[0] == 201

    run(scenario)


def test_a_bind_is_cut_after_the_server_did_it() -> None:
    async def scenario(world: World) -> None:
        world.proxy.add(is_bind, Treatment.CUT_AFTER, times=1)
        reader, writer = await world.dial()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await ask(reader, writer, "POST", BIND, b"{}")
        assert len(world.server.seen) == 1
        (answered,) = world.log.answers
        assert (answered.status, answered.treatment) == (201, Treatment.CUT_AFTER)

    run(scenario)


def test_a_request_that_is_held_back_gets_no_answer_until_its_rule_ends() -> None:
    async def scenario(world: World) -> None:
        rule = world.proxy.add(lambda request: request.is_lease, Treatment.HOLD)
        reader, writer = await world.dial()
        lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x"
        asked = asyncio.ensure_future(ask(reader, writer, "PUT", lease))
        other = await world.dial()
        assert (await ask(*other, "POST", BIND))[0] == 201
        assert not asked.done()
        world.proxy.remove(rule)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await asked
        assert len(world.server.seen) == 1

    run(scenario)


@pytest.mark.parametrize("answer", [refusal(429, retry_after=2), refusal(500), refusal(503, retry_after=1)])
def test_the_proxy_answers_in_the_servers_place(answer: Answer) -> None:
    async def scenario(world: World) -> None:
        world.proxy.add(lambda request: True, answer, times=1)
        reader, writer = await world.dial()
        status, head, body = await ask(reader, writer, "POST", BIND)
        said = json.loads(body)
        assert (status, said["kind"], said["code"]) == (answer.status, "Status", answer.status)
        assert (b"Retry-After: " in head) == bool(answer.headers)
        assert world.server.seen == []
        assert (await ask(reader, writer, "POST", BIND))[0] == 201

    run(scenario)


@pytest.mark.parametrize("in_stream", [True, False])
def test_a_watch_from_a_forgotten_version_is_refused(in_stream: bool) -> None:
    async def scenario(world: World) -> None:
        world.proxy.add(lambda request: request.is_watch, expired(in_stream=in_stream), times=1)
        reader, writer = await world.dial()
        status, _, body = await ask(reader, writer, "GET", "/api/v1/pods?watch=1&resourceVersion=1")
        said = json.loads(body)
        if in_stream:
            assert (status, said["type"], said["object"]["code"]) == (200, "ERROR", 410)
        else:
            assert (status, said["code"]) == (410, 410)

    run(scenario)


async def read_all(reader: asyncio.StreamReader) -> bytes:
    """Up to a polite end; cut off, it is a ConnectionError."""
    return await reader.read()


async def start_watch(world: World) -> asyncio.StreamReader:
    reader, writer = await world.dial()
    writer.write(b"GET /api/v1/pods?watch=true HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
    assert await reader.readuntil(b"\n\r\n") == b"1d\r\n" + EVENT + b"\r\n"
    assert world.proxy.watches == 1
    return reader


def test_a_watch_that_is_ended_politely_ends_after_a_whole_event() -> None:
    async def scenario(world: World) -> None:
        reader = await start_watch(world)
        assert world.proxy.end_watches(politely=True) == 1
        assert (b"1d\r\n" + EVENT + b"\r\n" + await read_all(reader)).endswith(EVENT + b"\r\n0\r\n\r\n")
        assert world.proxy.watches == 0

    run(scenario)


def test_a_watch_in_the_middle_of_an_event_is_cut() -> None:
    async def scenario(world: World) -> None:
        world.server.piece = b"half an event"
        reader, writer = await world.dial()
        writer.write(b"GET /api/v1/pods?watch=true HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"half an event\r\n")
        assert world.proxy.end_watches(politely=True) == 1
        with pytest.raises(ConnectionError):
            await read_all(reader)

    run(scenario)


def test_a_watch_is_cut() -> None:
    async def scenario(world: World) -> None:
        reader = await start_watch(world)
        assert world.proxy.end_watches(politely=False) == 1
        with pytest.raises(ConnectionError):
            await read_all(reader)

    run(scenario)


def test_connections_are_refused_and_taken_again_on_the_same_port() -> None:
    async def scenario(world: World) -> None:
        reader, writer = await world.dial()
        await ask(reader, writer, "POST", BIND)
        port = world.proxy.port
        await world.proxy.refuse_connections()
        with pytest.raises(ConnectionError):
            await ask(reader, writer, "POST", BIND)
        with pytest.raises(ConnectionRefusedError):
            await world.dial()
        await world.proxy.listen()
        assert world.proxy.port == port
        assert (await ask(*await world.dial(), "POST", BIND))[0] == 201

    run(scenario)


def test_a_server_that_is_gone_cuts_the_scheduler_off() -> None:
    async def scenario(world: World) -> None:
        world.proxy.server = ("127.0.0.1", 1)
        reader, writer = await world.dial()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await ask(reader, writer, "POST", BIND)
        (exchange,) = world.log.arrivals
        assert exchange.status is None

    run(scenario)
