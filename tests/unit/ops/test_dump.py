from __future__ import annotations

import asyncio
import json
import logging

import pytest

from stowplan.cluster import Cluster
from stowplan.engine.scheduler import Scheduler
from stowplan.objects import Pod
from stowplan.ops.dump import Mismatch, Truth, compare, dump
from stowplan.queue.queue import SchedulingQueue
from stowplan.testing.builders import make_node, make_pod


def on(name: str, node: str) -> Pod:
    return make_pod(name).requests(cpu="1").build().placed_on(node)


def a_cluster() -> Cluster:
    cluster = Cluster()
    for name in ("n1", "n2"):
        cluster.add(make_node(name).capacity(cpu="4", pods=10).build())
    cluster.add(on("a", "n1"))
    return cluster


N1, N2, N3 = (make_node(name).build() for name in ("n1", "n2", "n3"))


def test_what_is_the_same_is_no_mismatch() -> None:
    cluster = a_cluster()
    cluster.assume(make_pod("on-its-way").build(), "n2")
    assert not compare(cluster, Truth((N1, N2), (on("a", "n1"), make_pod("pending").build())))


def test_what_is_missed_and_what_is_redundant() -> None:
    found = compare(a_cluster(), Truth((N1, N3), (on("a", "n2"), on("b", "n1"))))
    assert found == Mismatch(
        frozenset({"n3"}),
        frozenset({"n2"}),
        frozenset({"default/a@n2", "default/b@n1"}),
        frozenset({"default/a@n1"}),
    )


def test_an_assumed_pod_may_be_bound_there_already() -> None:
    cluster = a_cluster()
    cluster.assume(make_pod("b").build(), "n2")
    assert not compare(cluster, Truth((N1, N2), (on("a", "n1"), on("b", "n2"))))


def a_queue(cluster: Cluster) -> SchedulingQueue:
    core = Scheduler(cluster)
    queue = SchedulingQueue(core.profiles, cluster.nominations, lambda: 100.0)
    queue.add(make_pod("waiting").build())
    return queue


def test_everything_known_goes_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    cluster = a_cluster()
    cluster.assume(make_pod("on-its-way").build(), "n2")
    with caplog.at_level(logging.INFO):
        asyncio.run(dump(cluster, a_queue(cluster)))
    details = [vars(record) for record in caplog.records]
    nodes = {each["node"]: each for each in details if each["msg"] == "dump of a node"}
    assert nodes["n1"]["pods"] == ["default/a"]
    assert nodes["n1"]["requested"]["cpu"] == 1000
    assert nodes["n1"]["allocatable"]["cpu"] == 4000
    assert json.loads(json.dumps(nodes["n1"]["allocatable"])) == nodes["n1"]["allocatable"]
    assert nodes["n2"]["pods"] == ["default/on-its-way"]
    queued = [each for each in details if each["msg"] == "dump of a queued pod"]
    assert [(each["pod"], each["place"]) for each in queued] == [("default/waiting", "active")]
    assert any(each["msg"] == "dump of an assumed pod" for each in details)
    assert [each["tasks"] for each in details if each["msg"] == "dump of the process"] == [1]


def test_a_difference_counts_when_it_stays(caplog: pytest.LogCaptureFixture) -> None:
    truths = [
        Truth((N1, N2, N3), (on("a", "n1"), on("late", "n1"))),
        Truth((N1, N2, N3), (on("a", "n1"), on("later", "n1"))),
    ]
    waited = []

    async def fetch() -> Truth:
        return truths.pop(0)

    async def pause(seconds: float) -> None:
        waited.append(seconds)

    cluster = a_cluster()
    with caplog.at_level(logging.INFO):
        found = asyncio.run(dump(cluster, a_queue(cluster), fetch, pause=pause))
    assert found == Mismatch(missed_nodes=frozenset({"n3"}))
    assert len(waited) == 1
    last = caplog.records[-1]
    assert last.message == "cache mismatch"
    assert vars(last)["missedNodes"] == ["n3"]
    assert vars(last)["missedPods"] == []


def test_no_difference_is_said_too(caplog: pytest.LogCaptureFixture) -> None:
    async def fetch() -> Truth:
        return Truth((N1, N2), (on("a", "n1"),))

    cluster = a_cluster()
    with caplog.at_level(logging.INFO):
        assert not asyncio.run(dump(cluster, a_queue(cluster), fetch))
    assert caplog.records[-1].message == "cache comparer finished"
