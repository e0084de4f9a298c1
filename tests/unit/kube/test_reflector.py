"""The copy follows the server, whatever happens on the way, and tells of every change once."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stowplan.kube.access import Access
from stowplan.kube.client import ApiClient
from stowplan.kube.errors import ApiError
from stowplan.kube.reflector import Reflector
from stowplan.objects import KubeObject, ObjectError, ObjectKind, find_kind
from tests.unit.kube.fakeapi import FakeApi, cut
from tests.unit.kube.fakeserver import CutNow, Exchange, FakeServer, eventually, serving

PODS = find_kind("Pod")
assert PODS is not None


class Told:
    """What was announced, checked for sense as it comes."""

    def __init__(self) -> None:
        self.known: dict[str, KubeObject] = {}
        self.changes: list[str] = []
        self.malformed: list[str] = []
        self.unavailable: list[ApiError] = []
        self.slept: list[float] = []

    def event(self, kind: ObjectKind, old: KubeObject | None, new: KubeObject | None) -> None:
        about = new or old
        assert about is not None and kind is PODS
        key = about.key
        assert self.known.get(key) is old, "what was before is what was told last"
        if old is not None and new is not None:
            assert old.uid == new.uid and old.resource_version != new.resource_version
        if new is None:
            del self.known[key]
        else:
            self.known[key] = new
        self.changes.append(f"{'+' if old is None else '-' if new is None else '~'}{about.name}")

    def is_malformed(self, kind: ObjectKind, error: ObjectError) -> None:
        self.malformed.append(str(error))

    def is_unavailable(self, kind: ObjectKind, error: ApiError) -> None:
        self.unavailable.append(error)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0.001)

    def state(self) -> dict[str, str]:
        return {key: pod.resource_version for key, pod in self.known.items()}


Test = Callable[[FakeApi, Told, Reflector, FakeServer], Awaitable[None]]


def run(prepare: Callable[[FakeApi], None], test: Test, **options: Any) -> None:
    async def main() -> None:
        assert PODS is not None
        api, told = FakeApi(), Told()
        prepare(api)
        async with serving(api) as server:
            client = ApiClient(Access(server=server.url), sleep=told.sleep)
            reflector = Reflector(
                client,
                PODS,
                told.event,
                on_malformed=told.is_malformed,
                on_unavailable=told.is_unavailable,
                sleep=told.sleep,
                random=lambda: 0.5,
                **options,
            )
            task = asyncio.ensure_future(reflector.run())
            try:
                async with asyncio.timeout(20):
                    await test(api, told, reflector, server)
                assert not task.done()
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await client.close()

    asyncio.run(main())


def three(api: FakeApi) -> None:
    for name in "abc":
        api.put(name)


def test_everything_is_there_at_first_page_by_page() -> None:
    async def test(api: FakeApi, told: Told, reflector: Reflector, server: FakeServer) -> None:
        before = reflector.synced
        await reflector.settled.wait()
        assert (before, reflector.synced) == (False, True)
        assert told.changes == ["+a", "+b", "+c"]
        assert set(reflector.objects) == {"default/a", "default/b", "default/c"}
        assert api.lists == 2
        assert "limit=2&fieldSelector=status.phase%21%3DFailed" in server.requests[0].target

    run(three, test, page_size=2, field_selector="status.phase!=Failed")


def test_changes_come_once_each() -> None:
    async def test(api: FakeApi, told: Told, reflector: Reflector, server: FakeServer) -> None:
        await reflector.settled.wait()
        told.changes.clear()
        api.put("d")
        api.put("a", x="1")
        api.raw_event("MODIFIED", api.pods["a"])  # again, with the same version
        api.remove("b")
        api.raw_event("DELETED", {"metadata": {"name": "nobody", "namespace": "default"}})
        api.put("z")
        await eventually(lambda: "+z" in told.changes)
        assert told.changes == ["+d", "~a", "-b", "+z"]
        assert told.known["default/a"].labels == {"x": "1"}

    run(three, test)


def test_a_watch_that_ends_is_taken_up_where_it_ended() -> None:
    async def test(api: FakeApi, told: Told, reflector: Reflector, server: FakeServer) -> None:
        await reflector.settled.wait()
        await eventually(lambda: api.watches == 1)
        for round_ in range(3):
            api.put(f"new-{round_}")
            await eventually(lambda: told.state() == api.state())
            api.end_watches()
            await eventually(lambda round_=round_: api.watches == round_ + 2)  # type: ignore[misc]
        assert api.lists == 1
        assert len(told.changes) == 6

    run(three, test)


def test_bookmarks_move_the_place_to_take_up() -> None:
    async def test(api: FakeApi, told: Told, reflector: Reflector, server: FakeServer) -> None:
        await reflector.settled.wait()
        await eventually(lambda: api.watches == 1)
        api.version += 100  # things that the selector hides
        api._wake()
        await eventually(lambda: reflector._version == str(api.version))
        api.forget_history()
        api.end_watches()
        await eventually(lambda: api.watches == 2)
        api.put("new")
        await eventually(lambda: told.state() == api.state())
        assert api.lists == 1

    run(three, test)


def test_too_old_means_comparing_with_everything() -> None:
    async def test(api: FakeApi, told: Told, reflector: Reflector, server: FakeServer) -> None:
        await reflector.settled.wait()
        await eventually(lambda: api.watches == 1)
        api.bookmarks = False
        told.changes.clear()

        async def hold(exchange: Exchange) -> bool:
            return False

        api.fault = cut
        server.cut_all()
        await asyncio.sleep(0.01)
        api.put("d")
        api.put("b", x="2")
        api.remove("c")
        api.remove("a")
        api.put("a")  # another one of the same name
        api.forget_history()
        api.fault = hold
        await eventually(lambda: told.state() == api.state())
        assert sorted(told.changes) == sorted(["-a", "+a", "~b", "+d", "-c"])
        assert told.changes.index("-a") < told.changes.index("+a")
        assert reflector.lists == 2

    run(three, test)


def test_the_next_page_is_asked_for_while_one_is_read() -> None:
    read_when_asked: list[int] = []

    async def main() -> None:
        assert PODS is not None
        api, told = FakeApi(), Told()
        for number in range(5100):
            api.put(f"p{number:04}")

        async def note(exchange: Exchange) -> bool:
            read_when_asked.append(len(told.known))
            return False

        api.fault = note
        async with serving(api) as server:
            client = ApiClient(Access(server=server.url))
            reflector = Reflector(client, PODS, told.event, page_size=5000)
            task = asyncio.ensure_future(reflector.run())
            await reflector.settled.wait()
            assert told.state() == api.state()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await client.close()

    asyncio.run(main())
    assert read_when_asked[0] == 0 and 0 < read_when_asked[1] < 5000


def test_pages_that_grow_too_old_are_asked_for_as_one() -> None:
    def prepare(api: FakeApi) -> None:
        three(api)

        async def expire(exchange: Exchange) -> bool:
            if "continue=" in exchange.request.target:
                gone = {
                    "code": 410,
                    "reason": "Expired",
                    "message": "The provided continue parameter is too old",
                }
                await exchange.reply(410, gone)
                return True
            return False

        api.fault = expire

    async def test(api: FakeApi, told: Told, reflector: Reflector, server: FakeServer) -> None:
        await reflector.settled.wait()
        assert told.changes == ["+a", "+b", "+c"]
        assert "limit" not in server.requests[2].target

    run(prepare, test, page_size=1)


def test_a_malformed_object_is_reported_and_the_stream_goes_on() -> None:
    def prepare(api: FakeApi) -> None:
        three(api)
        api.pods["b"]["metadata"]["labels"] = 7

    async def test(api: FakeApi, told: Told, reflector: Reflector, server: FakeServer) -> None:
        await reflector.settled.wait()
        assert told.changes == ["+a", "+c"]
        (problem,) = told.malformed
        assert "default/b" in problem and "labels" in problem
        await eventually(lambda: api.watches == 1)
        good = api.pods["c"]
        api.put("c")
        api.pods["c"]["metadata"]["labels"] = 8
        api.put("d")
        await eventually(lambda: "+d" in told.changes)
        assert len(told.malformed) == 2
        assert told.known["default/c"].resource_version == good["metadata"]["resourceVersion"]
        api.remove("c")
        await eventually(lambda: "-c" in told.changes)
        assert len(told.malformed) == 2
        assert int(reflector._version) == api.version

    run(prepare, test)


def test_a_malformed_object_in_a_later_list_keeps_what_was_known() -> None:
    async def test(api: FakeApi, told: Told, reflector: Reflector, server: FakeServer) -> None:
        await reflector.settled.wait()
        api.pods["b"]["metadata"]["labels"] = 7
        api.version += 5
        api.forget_history()
        api.bookmarks = False
        api.end_watches()
        await eventually(lambda: reflector.lists == 2)
        assert told.changes == ["+a", "+b", "+c"]
        assert told.malformed

    run(three, test)


@pytest.mark.parametrize("code", [403, 404])
def test_a_kind_that_cannot_be_had_is_reported_once_and_tried_again_soon(
    code: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Soon at first: an API server refuses much in its first moments. Less and less often later."""
    caplog.set_level(logging.INFO)

    def prepare(api: FakeApi) -> None:
        three(api)

        async def refuse(exchange: Exchange) -> bool:
            await exchange.reply(code, {"code": code, "reason": "No", "message": "cannot list pods"})
            return True

        api.fault = refuse

    async def test(api: FakeApi, told: Told, reflector: Reflector, server: FakeServer) -> None:
        await reflector.settled.wait()
        await eventually(lambda: len(told.slept) >= 10)
        assert told.slept[:4] == pytest.approx([0.3, 0.6, 1.2, 2.4])
        assert max(told.slept) == pytest.approx(45.0)
        assert not reflector.objects
        assert len(told.unavailable) == 1
        why = reflector.unavailable
        assert why is told.unavailable[0]
        api.fault = None
        await eventually(lambda: reflector.synced)
        assert told.changes == ["+a", "+b", "+c"]
        assert not reflector.unavailable
        assert "/api/v1/pods can be read now" in caplog.text

    run(prepare, test)


def test_a_kind_that_may_be_listed_but_not_watched_is_reported_once_and_not_hammered() -> None:
    async def test(api: FakeApi, told: Told, reflector: Reflector, server: FakeServer) -> None:
        async def refuse(exchange: Exchange) -> bool:
            if "watch=true" not in exchange.request.target:
                return False
            await exchange.reply(403, {"code": 403, "reason": "Forbidden", "message": "cannot watch pods"})
            return True

        api.fault = refuse
        await eventually(lambda: len(told.slept) >= 10)
        assert [error.message for error in told.unavailable] == ["cannot watch pods"]
        assert max(told.slept) == pytest.approx(45.0)
        api.fault = None
        await eventually(lambda: api.watches)
        api.put("d")
        await eventually(lambda: told.state() == api.state())
        api.fault = refuse  # once it could be watched, it is worth saying again
        api.end_watches()
        await eventually(lambda: len(told.unavailable) == 2)

    run(three, test)


def test_a_server_that_wants_to_be_left_alone_for_a_day_is_not_believed() -> None:
    async def test(api: FakeApi, told: Told, reflector: Reflector, server: FakeServer) -> None:
        async def refuse(exchange: Exchange) -> bool:
            if "watch=true" not in exchange.request.target:
                return False
            await exchange.reply(429, b"no", {"Retry-After": "86400"})
            return True

        api.fault = refuse
        await eventually(lambda: len(told.slept) >= 3)
        assert set(told.slept) == {60.0}
        assert api.lists == 1

    run(three, test)


def test_whatever_goes_wrong_the_kind_is_followed_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(api: FakeApi, told: Told, reflector: Reflector, server: FakeServer) -> None:
        await reflector.settled.wait()
        await eventually(lambda: api.watches == 1)
        stream = reflector._client.stream

        async def broken(*_: Any, **__: Any) -> None:
            raise AttributeError("nobody thought of this")

        monkeypatch.setattr(reflector._client, "stream", broken)
        api.end_watches()
        await eventually(lambda: "nobody thought of this" in caplog.text)
        monkeypatch.setattr(reflector._client, "stream", stream)
        api.put("d")
        await eventually(lambda: told.state() == api.state())

    run(three, test)


def test_failures_are_waited_out_longer_and_longer() -> None:
    def prepare(api: FakeApi) -> None:
        async def fail(exchange: Exchange) -> bool:
            await exchange.reply(500, {"code": 500, "message": "etcd is down"})
            return True

        api.fault = fail

    async def test(api: FakeApi, told: Told, reflector: Reflector, server: FakeServer) -> None:
        await eventually(lambda: len(told.slept) >= 10)
        assert told.slept[:4] == pytest.approx([0.3, 0.6, 1.2, 2.4])
        assert max(told.slept) == pytest.approx(45.0)
        api.fault = None
        api.put("a")
        await eventually(lambda: told.changes == ["+a"])

    run(prepare, test)


def test_trouble_that_lasts_is_a_warning_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]

    def prepare(api: FakeApi) -> None:
        async def fail(exchange: Exchange) -> bool:
            now[0] += 20.0
            await exchange.reply(401, {"code": 401, "message": "Unauthorized"})
            return True

        api.fault = fail

    async def test(api: FakeApi, told: Told, reflector: Reflector, server: FakeServer) -> None:
        caplog.set_level(logging.DEBUG, "stowplan.kube.reflector")
        await eventually(lambda: now[0] >= 200.0)
        levels = [record.levelno for record in caplog.records if "trying again" in record.message]
        minute = [logging.DEBUG, logging.DEBUG, logging.WARNING]
        assert levels[:7] == [logging.INFO, *minute, *minute]
        assert "Unauthorized" in caplog.text

    run(prepare, test, clock=lambda: now[0])


def test_a_server_that_ends_every_watch_at_once_is_not_hammered() -> None:
    async def test(api: FakeApi, told: Told, reflector: Reflector, server: FakeServer) -> None:
        async def end(exchange: Exchange) -> bool:
            if "watch=true" not in exchange.request.target:
                return False
            await exchange.start_stream()
            await exchange.end_stream()
            return True

        api.fault = end
        await reflector.settled.wait()
        await eventually(lambda: len(told.slept) >= 5)
        assert told.slept[:3] == pytest.approx([0.3, 0.6, 1.2])
        assert api.lists == 1

    run(three, test)


def test_a_server_restored_from_a_backup_is_read_anew() -> None:
    async def test(api: FakeApi, told: Told, reflector: Reflector, server: FakeServer) -> None:
        await reflector.settled.wait()
        await eventually(lambda: api.watches == 1)

        async def future(exchange: Exchange) -> bool:
            if "watch=true" not in exchange.request.target:
                api.fault = None
                return False
            message = "Timeout: Too large resource version: 100, current: 3"
            await exchange.reply(504, {"code": 504, "reason": "Timeout", "message": message})
            return True

        api.fault = future
        api.end_watches()
        await eventually(lambda: reflector.lists == 2)

    run(three, test)


def test_what_is_no_json_is_not_believed() -> None:
    async def test(api: FakeApi, told: Told, reflector: Reflector, server: FakeServer) -> None:
        async def junk(exchange: Exchange) -> bool:
            if "watch=true" not in exchange.request.target:
                return False
            await exchange.start_stream()
            await exchange.piece(b"<html>\n")
            api.fault = None
            raise CutNow

        api.fault = junk
        await reflector.settled.wait()
        await eventually(lambda: api.watches == 1)
        api.put("d")
        await eventually(lambda: told.state() == api.state())

    run(three, test)


def test_a_listener_that_fails_does_not_end_the_stream(caplog: pytest.LogCaptureFixture) -> None:
    async def test(api: FakeApi, told: Told, reflector: Reflector, server: FakeServer) -> None:
        await reflector.settled.wait()
        told.known.pop("default/b")  # the listener's own check fails from now on
        api.put("b")
        api.put("d")
        await eventually(lambda: "+d" in told.changes)
        assert "Pod default/b: a change could not be worked in" in caplog.text

    run(three, test)


@pytest.mark.parametrize("seed", range(12))
def test_after_any_trouble_the_copy_is_what_the_server_has(seed: int) -> None:
    """Cuts, expiry, errors and ends at random; `Told` checks that every announcement makes sense."""
    dice = random.Random(seed)

    async def trouble(exchange: Exchange) -> bool:
        fate = dice.random()
        if fate < 0.1:
            raise CutNow
        if fate < 0.2:
            await exchange.reply(dice.choice([429, 500, 503]), b"no", {"Retry-After": "1"})
            return True
        return False

    async def test(api: FakeApi, told: Told, reflector: Reflector, server: FakeServer) -> None:
        names = [f"pod-{n}" for n in range(12)]
        for _ in range(150):
            for _ in range(dice.randrange(4)):
                name = dice.choice(names)
                if name in api.pods and dice.random() < 0.4:
                    api.remove(name)
                else:
                    api.put(name)
            fate = dice.random()
            if fate < 0.1:
                server.cut_all()
            elif fate < 0.2:
                api.end_watches()
            elif fate < 0.3:
                api.bookmarks = dice.random() < 0.5
                api.forget_history()
                server.cut_all()
            await asyncio.sleep(dice.choice([0, 0, 0.002]))
        api.fault = None
        api.put("last")
        await eventually(lambda: told.state() == api.state())
        assert {key: pod.resource_version for key, pod in reflector.objects.items()} == api.state()

    def prepare(api: FakeApi) -> None:
        three(api)
        api.fault = trouble

    run(prepare, test, page_size=3)
