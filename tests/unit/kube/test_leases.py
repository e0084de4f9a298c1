"""Of several candidates, one leads."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from stowplan.kube.errors import ApiError, UncertainError, UnreachableError
from stowplan.kube.leases import LeaderElector, LeaseLostError
from stowplan.kube.transport import Answer
from tests.unit.kube.virtualtime import VirtualTime


class LeaseApi:
    """One lease, with versions, and faults per candidate."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.writes = 0

    def put(self, body: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        self.writes += 1
        metadata = {**body["metadata"], "resourceVersion": str(self.version)}
        self.lease = {**body, "metadata": metadata}
        return self.lease


class LeaseClient:
    """The requests of one candidate."""

    def __init__(self, api: LeaseApi) -> None:
        self.api = api
        self.cut_off = False
        self.loses_answers = False
        self.hangs = False
        self.seen: list[str] = []

    async def request(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        *,
        content_type: str = "",
        timeout: float | None = None,
    ) -> Answer:
        self.seen.append(f"{method} {target}")
        if self.hangs:
            await asyncio.sleep(3600)
        if self.cut_off:
            raise UnreachableError("no route to host")
        plain = self._answer(method, json.loads(body) if body else None)
        if self.loses_answers:
            raise UncertainError("cut")
        return Answer(200, (), json.dumps(plain).encode())

    def _answer(self, method: str, body: Any) -> Any:
        lease = self.api.lease
        if method == "POST":
            if lease is not None:
                raise ApiError(409, "AlreadyExists", "there is one")
            return self.api.put(body)
        if lease is None:
            raise ApiError(404, "NotFound", "no lease")
        if method == "PUT":
            if body["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"]:
                raise ApiError(409, "Conflict", "changed in between")
            return self.api.put(body)
        return lease


def candidate(
    api: LeaseApi, time: VirtualTime, identity: str, **options: Any
) -> tuple[LeaderElector, LeaseClient]:
    client: Any = LeaseClient(api)
    elector = LeaderElector(
        client,
        identity=identity,
        clock=time.clock,
        wall_clock=time.clock,
        sleep=time.sleep,
        random=lambda: 0.0,
        **options,
    )
    return elector, client


def leads(elector: LeaderElector) -> bool:
    return elector.is_leader  # a call, because what is true now may not be so after the next line


async def end(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_the_first_makes_the_lease_and_renews_it() -> None:
    async def main() -> None:
        time, api = VirtualTime(), LeaseApi()
        leaders: list[str] = []
        one, client = candidate(api, time, "one", on_new_leader=leaders.append)
        assert not leads(one)
        await one.acquire()
        assert leads(one) and api.lease is not None
        assert api.lease["metadata"] == {
            "name": "kube-scheduler",
            "namespace": "kube-system",
            "resourceVersion": "1",
        }
        assert api.lease["spec"] == {
            "holderIdentity": "one",
            "leaseDurationSeconds": 15,
            "acquireTime": "1970-01-01T00:16:40.000000Z",
            "renewTime": "1970-01-01T00:16:40.000000Z",
            "leaseTransitions": 0,
        }
        keeping = asyncio.ensure_future(one.keep())
        await time.pass_by(20)
        assert leads(one)
        assert api.writes == 11
        assert api.lease["spec"]["renewTime"] == "1970-01-01T00:17:00.000000Z"
        assert api.lease["spec"]["acquireTime"] == "1970-01-01T00:16:40.000000Z"
        assert client.seen.count(client.seen[0]) == 1, "renewing needs no reading"
        assert leaders == ["one"]
        await end(keeping)

    asyncio.run(main())


def test_another_takes_over_only_when_the_lease_has_not_changed_for_its_duration() -> None:
    async def main() -> None:
        time, api = VirtualTime(), LeaseApi()
        one, cut = candidate(api, time, "one")
        two, _ = candidate(api, time, "two")
        await one.acquire()
        keeping = asyncio.ensure_future(one.keep())
        waiting = asyncio.ensure_future(two.acquire())
        await time.pass_by(60)
        assert not leads(two) and two.leader == "one"
        cut.cut_off = True
        cut_at = time.now
        while not leads(two):
            assert not (leads(one) and leads(two))
            await time.pass_by(0.5)
        assert 13 <= time.now - cut_at <= 18
        assert api.lease is not None and api.lease["spec"]["leaseTransitions"] == 1
        with pytest.raises(LeaseLostError):
            await keeping
        assert not leads(one)
        await waiting

    asyncio.run(main())


def test_the_clock_of_the_holder_does_not_count() -> None:
    async def main() -> None:
        time, api = VirtualTime(), LeaseApi()
        api.put(
            {
                "metadata": {"name": "kube-scheduler"},
                "spec": {
                    "holderIdentity": "stranger",
                    "leaseDurationSeconds": 30,
                    "renewTime": "1990-01-01T00:00:00.000000Z",
                },
            }
        )
        one, _ = candidate(api, time, "one")
        started = time.now
        await time.finish(one.acquire())
        assert 30 <= time.now - started <= 33

    asyncio.run(main())


def test_handing_over_lets_the_next_one_in_at_once() -> None:
    async def main() -> None:
        time, api = VirtualTime(), LeaseApi()
        one, _ = candidate(api, time, "one")
        two, _ = candidate(api, time, "two")
        stop = asyncio.Event()

        async def lead() -> None:
            await stop.wait()

        running = asyncio.ensure_future(one.run(lead))
        await time.pass_by(5)
        waiting = asyncio.ensure_future(two.acquire())
        await time.pass_by(5)
        assert leads(one) and not leads(two)
        stop.set()
        stopped = time.now
        await time.pass_by(0)
        await running
        assert not leads(one) and api.lease is not None
        assert api.lease["spec"]["holderIdentity"] == ""
        assert api.lease["spec"]["leaseDurationSeconds"] == 1
        await time.finish(waiting)
        assert time.now - stopped <= 2.5
        assert api.lease["spec"]["leaseTransitions"] == 1

    asyncio.run(main())


def test_whoever_loses_the_lease_stops_leading() -> None:
    async def main() -> None:
        time, api = VirtualTime(), LeaseApi()
        one, client = candidate(api, time, "one")
        stopped: list[float] = []

        async def lead() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                stopped.append(time.now)

        running = asyncio.ensure_future(one.run(lead))
        await time.pass_by(1)
        client.cut_off = True
        with pytest.raises(LeaseLostError):
            await time.finish(running)
        assert stopped and stopped[0] - 1000.0 <= 13
        assert api.lease is not None and api.lease["spec"]["holderIdentity"] == "one", (
            "it was not ours to give"
        )

    asyncio.run(main())


def test_what_fails_while_leading_comes_out_and_hands_over() -> None:
    async def main() -> None:
        time, api = VirtualTime(), LeaseApi()
        one, _ = candidate(api, time, "one")

        async def lead() -> None:
            raise LookupError("broken")

        with pytest.raises(LookupError, match="broken"):
            await time.finish(one.run(lead))
        assert api.lease is not None and api.lease["spec"]["holderIdentity"] == ""

    asyncio.run(main())


def test_short_trouble_is_no_reason_to_step_down() -> None:
    async def main() -> None:
        time, api = VirtualTime(), LeaseApi()
        one, client = candidate(api, time, "one")
        await one.acquire()
        keeping = asyncio.ensure_future(one.keep())
        client.cut_off = True
        await time.pass_by(8)
        client.cut_off = False
        await time.pass_by(60)
        assert leads(one) and not keeping.done()
        await end(keeping)

    asyncio.run(main())


@pytest.mark.parametrize("body", [b"<html>log in, please</html>", b"[]", b'{"spec": null}', b""])
def test_what_is_no_lease_is_trouble_like_any_other(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something between here and the API server may answer in its place."""

    async def main() -> None:
        time, api = VirtualTime(), LeaseApi()
        one, client = candidate(api, time, "one")

        async def answer(*_: Any, **__: Any) -> Answer:
            return Answer(200, (), body)

        tasks = []
        for step in (one.acquire, one.keep):
            with monkeypatch.context() as patched:
                patched.setattr(client, "request", answer)
                tasks.append(asyncio.ensure_future(step()))
                await time.pass_by(5)
                assert not tasks[-1].done()
            await time.pass_by(5)
            assert leads(one)
        await end(tasks[-1])

    asyncio.run(main())


def test_a_renewal_whose_answer_is_lost_is_found_out() -> None:
    async def main() -> None:
        time, api = VirtualTime(), LeaseApi()
        one, client = candidate(api, time, "one")
        await one.acquire()
        keeping = asyncio.ensure_future(one.keep())
        client.loses_answers = True
        await time.pass_by(5)
        client.loses_answers = False
        await time.pass_by(10)
        assert leads(one) and not keeping.done()
        assert api.lease is not None and api.lease["spec"]["leaseTransitions"] == 0
        client.loses_answers = True  # and once more, just before stopping
        await time.pass_by(2)
        await end(keeping)
        client.loses_answers = False
        await one.release()
        assert api.lease["spec"]["holderIdentity"] == ""

    asyncio.run(main())


def test_time_alone_takes_the_lead_away() -> None:
    async def main() -> None:
        time, api = VirtualTime(), LeaseApi()
        one, _ = candidate(api, time, "one")
        await one.acquire()
        assert one.problem() is None
        time.now += 12.1  # nothing ran, as when the process was stopped
        assert not leads(one)
        assert one.problem() is None
        time.now += 30
        assert one.problem() == "failed election to renew leadership on lease kube-scheduler"

    asyncio.run(main())


def test_a_lease_that_somebody_else_took_is_given_up_at_once() -> None:
    async def main() -> None:
        time, api = VirtualTime(), LeaseApi()
        one, _ = candidate(api, time, "one")
        await one.acquire()
        assert api.lease is not None
        api.put({**api.lease, "spec": {"holderIdentity": "two", "leaseDurationSeconds": 15}})
        keeping = asyncio.ensure_future(one.keep())
        with pytest.raises(LeaseLostError, match="two"):
            await time.finish(keeping, limit=3)
        await one.release()
        assert api.lease["spec"]["holderIdentity"] == "two"

    asyncio.run(main())


def test_unknown_fields_of_the_lease_survive() -> None:
    async def main() -> None:
        time, api = VirtualTime(), LeaseApi()
        spec = {"holderIdentity": "", "strategy": "OldestEmulationVersion"}
        api.put({"metadata": {"name": "kube-scheduler", "labels": {"a": "b"}}, "spec": spec})
        one, _ = candidate(api, time, "one")
        await one.acquire()
        assert api.lease is not None
        assert api.lease["spec"]["strategy"] == "OldestEmulationVersion"
        assert api.lease["metadata"]["labels"] == {"a": "b"}

    asyncio.run(main())


@pytest.mark.parametrize("times", [(10.0, 10.0, 2.0), (15.0, 2.0, 2.0), (15.0, 10.0, 0.0)])
def test_times_that_make_no_sense_are_refused(times: tuple[float, float, float]) -> None:
    duration, deadline, period = times
    api = LeaseApi()
    with pytest.raises(ValueError, match="renewDeadline"):
        candidate(
            api, VirtualTime(), "one", lease_duration=duration, renew_deadline=deadline, retry_period=period
        )


@pytest.mark.parametrize("seed", range(15))
def test_there_are_never_two_leaders(seed: int) -> None:
    async def main() -> None:
        dice = random.Random(seed)
        time, api = VirtualTime(), LeaseApi()
        candidates = [candidate(api, time, name) for name in ("one", "two", "three")]

        async def forever(elector: LeaderElector) -> None:
            while True:
                try:
                    await elector.run(lambda: time.sleep(dice.uniform(5, 200)))
                except LeaseLostError:
                    await time.sleep(1.0)

        tasks = [asyncio.ensure_future(forever(elector)) for elector, _ in candidates]
        led: set[str] = set()
        for _ in range(400):
            await time.pass_by(dice.uniform(0, 3))
            leading = [elector.identity for elector, _ in candidates if leads(elector)]
            assert len(leading) <= 1
            led.update(leading)
            for _, client in candidates:
                if dice.random() < 0.05:
                    client.cut_off = not client.cut_off
                if dice.random() < 0.05:
                    client.loses_answers = not client.loses_answers
        assert len(led) >= 2
        for _, client in candidates:
            client.cut_off = client.loses_answers = False
        await end(*tasks)

    asyncio.run(main())
