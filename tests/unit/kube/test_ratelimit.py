"""QPS and burst."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.kube.backoff import Backoff
from stowplan.kube.ratelimit import TokenBucket
from tests.unit.kube.virtualtime import VirtualTime


def test_a_burst_goes_through_and_then_it_drips() -> None:
    time = VirtualTime()
    bucket = TokenBucket(10.0, 3, clock=time.clock, sleep=time.sleep)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    time.now += 0.1
    assert [bucket.take() for _ in range(2)] == [True, False]
    time.now += 100
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]


@settings(max_examples=40)
@given(qps=st.floats(0.5, 50), burst=st.integers(1, 10), wanted=st.integers(1, 40))
def test_never_more_than_burst_and_rate_allow_and_in_order(qps: float, burst: int, wanted: int) -> None:
    async def main() -> None:
        time = VirtualTime()
        bucket = TokenBucket(qps, burst, clock=time.clock, sleep=time.sleep)
        went: list[tuple[int, float]] = []

        async def go(number: int) -> None:
            await bucket.wait()
            went.append((number, time.now))

        await time.finish(asyncio.gather(*(go(number) for number in range(wanted))))
        assert [number for number, _ in went] == list(range(wanted))
        for number, when in went:
            assert when - 1000.0 == pytest.approx(max(0, number + 1 - burst) / qps, abs=1e-6)

    asyncio.run(main())


def test_whoever_stops_waiting_gives_the_turn_back() -> None:
    async def main() -> None:
        time = VirtualTime()
        bucket = TokenBucket(1.0, 1, clock=time.clock, sleep=time.sleep)
        await bucket.wait()
        waiting = asyncio.ensure_future(bucket.wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await time.finish(bucket.wait())
        assert time.now <= 1001.25

    asyncio.run(main())


def test_a_negative_rate_is_no_limit() -> None:
    bucket = TokenBucket(-1.0, 1, clock=lambda: 0.0, sleep=asyncio.sleep)
    assert all(bucket.take() for _ in range(1000))


def test_delays_grow_to_a_limit_and_start_over() -> None:
    backoff = Backoff(1.0, 5.0, lambda: 0.5)
    assert [backoff.next() for _ in range(5)] == [1.5, 3.0, 6.0, 7.5, 7.5]
    backoff.reset()
    assert backoff.next() == 1.5
