"""The loop gathers only while much happens."""

from __future__ import annotations

import asyncio
import selectors
import socket
import time

from stowplan.kube.loop import GatheringSelector, new_event_loop


def test_it_pauses_only_right_after_another_wake_up() -> None:
    now, pauses = [100.0], list[float]()

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds
        left.send(b"more")
        other_left.send(b"more")

    selector = GatheringSelector(clock=lambda: now[0], pause=pause)
    (left, right), (other_left, other_right) = socket.socketpair(), socket.socketpair()
    try:
        for each in (right, other_right):
            selector.register(each, selectors.EVENT_READ)
        left.send(b"x")
        assert len(selector.select(5)) == 1 and not pauses
        right.recv(10)
        now[0] += 1.0
        left.send(b"x")
        assert len(selector.select(None)) == 1 and not pauses
        now[0] += 0.0002
        assert len(selector.select(0)) == 1 and not pauses, "the loop has work to do"
        assert len(selector.select(None)) == 2, "what came during the pause is there too"
        assert pauses == [0.002]
        right.recv(10)
        other_right.recv(10)
        assert selector.select(0.0001) == []
    finally:
        selector.close()
        for each in (left, right, other_left, other_right):
            each.close()


def test_the_loop_works_as_any_other() -> None:
    async def main() -> float:
        started = time.monotonic()
        answers = await asyncio.gather(*(asyncio.sleep(0.01, number) for number in range(50)))
        assert answers == list(range(50))
        process = await asyncio.create_subprocess_exec("true")
        assert await process.wait() == 0
        return time.monotonic() - started

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        assert runner.run(main()) < 5
