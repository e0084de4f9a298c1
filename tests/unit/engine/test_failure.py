"""What becomes of the node that a pod was promised, when it is turned down again."""

from __future__ import annotations

import asyncio

import pytest

from stowplan.engine.failure import Failure
from stowplan.framework.status import unschedulable
from stowplan.queue import QueuedPod
from stowplan.testing.builders import make_pod
from tests.unit.engine.world import make_world


@pytest.mark.parametrize(
    ("written", "remembered", "decided", "after"),
    [
        ("", "", "n1", "n1"),
        ("n1", "n1", "", None),
        ("n1", "n1", None, "n1"),
        ("n1", "", None, "n1"),
        ("", "n1", None, "n1"),
        ("n1", "n2", None, "n2"),
        ("", "", None, None),
    ],
)
def test_which_node_a_pod_is_promised_after_a_failure(
    written: str, remembered: str, decided: str | None, after: str | None
) -> None:
    """One that only stands in its status counts as well: it may have been written before a restart, while
    something else kept the pod out of the queue. What is remembered is newer."""

    async def test() -> None:
        world = make_world([])
        nominations = world.live.core.cluster.nominations
        status = {"nominatedNodeName": written} if written else {}
        pod = make_pod("p").status(**status).build()
        world.pods[pod.key] = pod
        if remembered:
            nominations.add(pod, remembered)
        failure = Failure(unschedulable("no room"), "no room", frozenset(("X",)), nominated_node=decided)
        world.live.failures.handle(QueuedPod(pod, 0.0), failure)
        assert nominations.node_of(pod.uid) == after

    asyncio.run(test())
