"""One connection, many connections, and everything that can happen to them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stowplan.kube import pool as pool_module
from stowplan.kube.access import Access
from stowplan.kube.errors import UncertainError, UnreachableError
from stowplan.kube.pool import Pool
from tests.unit.kube.fakeserver import CutNow, Exchange, FakeServer, Handler, eventually, ok, serving

Test = Callable[[Pool, FakeServer], Awaitable[None]]


def run(handler: Handler, test: Test, *, size: int = 4) -> None:
    async def main() -> None:
        async with serving(handler) as server:
            pool = Access(server=server.url).transport(connections=size)
            try:
                async with asyncio.timeout(20):
                    await test(pool, server)
            finally:
                await pool.close()

    asyncio.run(main())


@pytest.fixture
def fast_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_SWEEP", 0.02)


def test_a_connection_is_kept_and_used_again() -> None:
    async def test(pool: Pool, server: FakeServer) -> None:
        for number in range(5):
            answer = await pool.send("POST", f"/{number}", b"X-One: 1\r\n", b"body", timeout=5)
            assert (answer.status, answer.body) == (200, b"{}")
        assert server.connections == 1
        assert [each.target for each in server.requests] == ["/0", "/1", "/2", "/3", "/4"]
        assert server.requests[0].headers["x-one"] == "1"
        assert server.requests[0].body == b"body"

    run(ok, test)


def test_no_more_connections_than_allowed_and_the_rest_wait_in_order() -> None:
    gate = asyncio.Event()

    async def wait(exchange: Exchange) -> None:
        await gate.wait()
        await ok(exchange)

    async def test(pool: Pool, server: FakeServer) -> None:
        sends = [asyncio.ensure_future(pool.send("GET", f"/{n}", b"", timeout=9)) for n in range(9)]
        await eventually(lambda: len(server.requests) == 3)
        gate.set()
        await asyncio.gather(*sends)
        assert server.connections == 3
        assert [each.target for each in server.requests[3:]] == [f"/{n}" for n in range(3, 9)]

    run(wait, test, size=3)


def test_a_write_that_is_cut_is_uncertain_and_was_sent_once() -> None:
    async def cut(exchange: Exchange) -> None:
        raise CutNow

    async def test(pool: Pool, server: FakeServer) -> None:
        with pytest.raises(
            UncertainError, match=r"POST /bind: the (server closed the connection|connection was)"
        ):
            await pool.send("POST", "/bind", b"", b"x", timeout=5)
        assert len(server.requests) == 1

    run(cut, test)


@pytest.mark.parametrize(
    "half",
    [
        b"HTTP/1.1 201 Cre",
        b"HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\n12345",
        b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n123",
    ],
)
def test_half_an_answer_is_none(half: bytes) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.raw(half)
        raise CutNow

    async def test(pool: Pool, server: FakeServer) -> None:
        with pytest.raises(UncertainError):
            await pool.send("POST", "/", b"", b"x", timeout=5)
        server.handler = ok
        assert (await pool.send("GET", "/", b"", timeout=5)).status == 200

    run(answer, test)


def test_an_answer_in_pieces_of_any_size_is_put_together() -> None:
    content = bytes(range(256)) * 3000

    async def answer(exchange: Exchange) -> None:
        await exchange.start_stream()
        for start in range(0, len(content), 10_007):
            await exchange.piece(content[start : start + 10_007])
        await exchange.end_stream()

    async def test(pool: Pool, server: FakeServer) -> None:
        for _ in range(2):
            assert (await pool.send("GET", "/", b"", timeout=5)).body == content
        assert server.connections == 1

    run(answer, test)


def test_an_interim_answer_is_no_answer() -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.raw(b"HTTP/1.1 100 Continue\r\n\r\n")
        await exchange.reply(201, b"yes", {"Retry-After": "7"})

    async def test(pool: Pool, server: FakeServer) -> None:
        given = await pool.send("POST", "/", b"", b"x", timeout=5)
        assert (given.status, given.body, given.header("retry-after")) == (201, b"yes", "7")
        assert given.header("missing") == ""

    run(answer, test)


def test_a_server_that_wants_to_close_is_believed() -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.reply(200, b"bye", {"Connection": "close"})

    async def test(pool: Pool, server: FakeServer) -> None:
        for _ in range(3):
            assert (await pool.send("GET", "/", b"", timeout=5)).body == b"bye"
        assert server.connections == 3

    run(answer, test)


def test_what_is_not_http_is_said_to_be_that() -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.raw(b"220 smtp.example.com ESMTP\r\n")

    async def test(pool: Pool, server: FakeServer) -> None:
        with pytest.raises(UncertainError, match="the answer is not HTTP"):
            await pool.send("GET", "/", b"", timeout=5)

    run(answer, test)


def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.reply(200, b"one")
        await exchange.reply(200, b"two")

    async def test(pool: Pool, server: FakeServer) -> None:
        assert (await pool.send("GET", "/", b"", timeout=5)).body == b"one"
        await asyncio.sleep(0.05)
        server.handler = ok
        assert (await pool.send("GET", "/", b"", timeout=5)).body == b"{}"
        assert server.connections == 2

    run(answer, test)


@pytest.mark.usefixtures("fast_sweep")
def test_a_late_answer_is_given_up_and_its_connection_too() -> None:
    async def never(exchange: Exchange) -> None:
        await asyncio.sleep(60)

    async def test(pool: Pool, server: FakeServer) -> None:
        with pytest.raises(UncertainError, match="took too long"):
            await pool.send("POST", "/", b"", b"x", timeout=0.1)
        server.handler = ok
        await pool.send("GET", "/", b"", timeout=5)
        assert server.connections == 2

    run(never, test, size=1)


@pytest.mark.usefixtures("fast_sweep")
def test_idle_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_IDLE_LIMIT", 0.1)

    async def test(pool: Pool, server: FakeServer) -> None:
        await pool.send("GET", "/", b"", timeout=5)
        assert len(server._writers) == 1
        await eventually(lambda: not server._writers)
        await pool.send("GET", "/", b"", timeout=5)
        assert server.connections == 2

    run(ok, test, size=1)


def test_connections_that_the_server_closed_in_the_meantime_are_not_used() -> None:
    async def test(pool: Pool, server: FakeServer) -> None:
        for _ in range(3):
            await pool.send("POST", "/", b"", b"x", timeout=5)
            server.cut_all()
            await asyncio.sleep(0.02)
        assert server.connections == 3

    run(ok, test, size=1)


def test_nobody_listening_is_unreachable_and_the_place_is_free_again() -> None:
    async def test(pool: Pool, server: FakeServer) -> None:
        await server.stop_listening()
        for _ in range(4):
            with pytest.raises(UnreachableError, match="GET /x: "):
                await pool.send("GET", "/x", b"", timeout=5)

    run(ok, test, size=1)


def test_giving_up_frees_the_place_in_line_and_on_the_wire() -> None:
    async def never(exchange: Exchange) -> None:
        await asyncio.sleep(60)

    async def test(pool: Pool, server: FakeServer) -> None:
        first = asyncio.ensure_future(pool.send("POST", "/first", b"", b"x", timeout=9))
        await eventually(lambda: server.requests)
        second = asyncio.ensure_future(pool.send("POST", "/second", b"", b"x", timeout=9))
        third = asyncio.ensure_future(pool.send("POST", "/third", b"", b"x", timeout=9))
        await asyncio.sleep(0.01)
        server.handler = ok
        second.cancel()
        first.cancel()
        assert (await third).status == 200
        gone: Any = await asyncio.gather(first, second, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in gone)
        assert [each.target for each in server.requests] == ["/first", "/third"]

    run(never, test, size=1)


def test_a_place_given_to_somebody_who_left_goes_to_the_next() -> None:
    async def test(pool: Pool, server: FakeServer) -> None:
        gate = asyncio.Event()

        async def wait(exchange: Exchange) -> None:
            await gate.wait()
            await ok(exchange)

        server.handler = wait
        first = asyncio.ensure_future(pool.send("GET", "/first", b"", timeout=9))
        await eventually(lambda: server.requests)
        second = asyncio.ensure_future(pool.send("GET", "/second", b"", timeout=9))
        third = asyncio.ensure_future(pool.send("GET", "/third", b"", timeout=9))
        await asyncio.sleep(0.01)
        first.add_done_callback(lambda _: second.cancel())  # after the place was handed to the second
        gate.set()
        assert (await third).status == 200

    run(ok, test, size=1)


def test_a_stream_feeds_what_comes_and_ends() -> None:
    async def stream(exchange: Exchange) -> None:
        await exchange.start_stream()
        for number in range(3):
            await exchange.piece(b"%d" % number)
        await exchange.end_stream()

    async def test(pool: Pool, server: FakeServer) -> None:
        got: list[bytes] = []
        answer = await pool.stream("GET", "/", b"", got.append, timeout=5, idle_timeout=5)
        assert answer.status == 200
        assert b"".join(got) == b"012"

    run(stream, test)


def test_streams_do_not_take_the_places_of_requests() -> None:
    async def mixed(exchange: Exchange) -> None:
        if exchange.request.path == "/watch":
            await exchange.start_stream()
            await asyncio.sleep(60)
        await ok(exchange)

    async def test(pool: Pool, server: FakeServer) -> None:
        streams = [
            asyncio.ensure_future(
                pool.stream("GET", "/watch", b"", lambda _: None, timeout=5, idle_timeout=60)
            )
            for _ in range(5)
        ]
        await eventually(lambda: len(server.requests) == 5)
        assert (await pool.send("GET", "/", b"", timeout=5)).status == 200
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)

    run(mixed, test, size=1)


def test_a_stream_that_is_refused_returns_the_answer() -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.reply(410, b"too old")

    async def test(pool: Pool, server: FakeServer) -> None:
        got: list[bytes] = []
        answer = await pool.stream("GET", "/", b"", got.append, timeout=5, idle_timeout=5)
        assert (answer.status, answer.body, got) == (410, b"too old", [])

    run(refuse, test)


@pytest.mark.usefixtures("fast_sweep")
def test_a_stream_on_which_nothing_happens_is_given_up() -> None:
    async def stall(exchange: Exchange) -> None:
        await exchange.start_stream()
        for _ in range(6):  # as long as something comes, it may take longer than the limit in all
            await exchange.piece(b"x")
            await asyncio.sleep(0.15)
        await asyncio.sleep(60)

    async def test(pool: Pool, server: FakeServer) -> None:
        got: list[bytes] = []
        with pytest.raises(UncertainError, match="took too long"):
            await pool.stream("GET", "/", b"", got.append, timeout=5, idle_timeout=0.7)
        assert len(got) == 6

    run(stall, test)


def test_what_the_reader_of_a_stream_raises_comes_out() -> None:
    async def stream(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.piece(b"1")
        await asyncio.sleep(60)

    def burst(data: bytes) -> None:
        raise LookupError(data.decode())

    async def test(pool: Pool, server: FakeServer) -> None:
        with pytest.raises(LookupError, match="1"):
            await pool.stream("GET", "/", b"", burst, timeout=5, idle_timeout=5)
        await eventually(lambda: not pool._all)

    run(stream, test)


def test_closing_ends_everything() -> None:
    async def never(exchange: Exchange) -> None:
        await asyncio.sleep(60)

    async def test(pool: Pool, server: FakeServer) -> None:
        sends = [asyncio.ensure_future(pool.send("GET", "/", b"", timeout=60)) for _ in range(3)]
        await eventually(lambda: server.requests)
        await pool.close()
        ended: Any = await asyncio.gather(*sends, return_exceptions=True)
        assert isinstance(ended[0], UncertainError)
        assert all(isinstance(each, UnreachableError) for each in ended[1:])
        with pytest.raises(UnreachableError, match="was closed"):
            await pool.send("GET", "/", b"", timeout=5)

    run(never, test, size=1)


def test_after_renewal_old_connections_are_not_used_again() -> None:
    async def test(pool: Pool, server: FakeServer) -> None:
        await pool.send("GET", "/", b"", timeout=5)
        pool.renew()
        await pool.send("GET", "/", b"", timeout=5)
        assert server.connections == 2

    run(ok, test, size=1)


def test_whether_a_request_may_be_sent_is_asked_when_it_is() -> None:
    """Not when it gets in line."""
    allowed = True
    gate = asyncio.Event()

    def admit(method: str, target: str) -> None:
        if not allowed:
            raise PermissionError(f"{method} {target}")

    async def wait(exchange: Exchange) -> None:
        await gate.wait()
        await ok(exchange)

    async def main() -> None:
        nonlocal allowed
        async with serving(wait) as server:
            pool = Access(server=server.url).transport(connections=1, admit=admit)
            first = asyncio.ensure_future(pool.send("POST", "/1", b"", b"x", timeout=9))
            second = asyncio.ensure_future(pool.send("POST", "/2", b"", b"x", timeout=9))
            await eventually(lambda: server.requests)
            allowed = False
            gate.set()
            assert (await first).status == 200
            with pytest.raises(PermissionError, match="POST /2"):
                await second
            allowed = True
            assert (await pool.send("POST", "/3", b"", b"x", timeout=9)).status == 200
            assert [each.target for each in server.requests] == ["/1", "/3"]
            await pool.close()

    asyncio.run(main())
