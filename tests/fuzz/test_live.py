"""Whatever comes over a watch: what comes after it arrives, and what went is gone."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from typing import Any, cast

import msgspec
import pytest

from stowplan.cluster import Cluster
from stowplan.engine import Scheduler
from stowplan.engine.feed import Feed
from stowplan.kube.client import ApiClient
from stowplan.kube.reflector import Reflector
from stowplan.kube.transport import Answer, DataSink
from stowplan.objects import KubeObject, Node, ObjectError, ObjectKind, Pod, known_kinds
from stowplan.queue import SchedulingQueue
from stowplan.testing.builders import make_node, make_pod
from tests.fuzz.growing import Input, grow
from tests.fuzz.world import Complaints

INPUTS = 900
SEED = 5


@cache
def inputs() -> list[Input]:
    return [grow(SEED, number) for number in range(INPUTS)]


class OneWatch:
    """An API server that has no objects at first, and then says all it has to say in one watch."""

    def __init__(self, lines: list[str]) -> None:
        self._said = "".join(f"{line}\n" for line in lines).encode()
        self.over = asyncio.Event()
        self.lists = 0

    async def request(self, method: str, target: str, **_: Any) -> Answer:
        self.lists += 1
        return Answer(200, (), b'{"metadata": {"resourceVersion": "1"}, "items": []}')

    async def stream(self, target: str, on_data: DataSink, *, idle_timeout: float) -> None:
        on_data(self._said)
        self.over.set()
        await asyncio.Event().wait()


def event(kind: str, text: str) -> str:
    return f'{{"type": "{kind}", "object": {text}}}'


def readable(text: str) -> bool:
    """Whether an API server can have sent this, and tell whose it is: an object with name and version."""
    try:
        metadata = msgspec.json.decode(text)["metadata"]
        return all(isinstance(metadata[key], str) for key in ("name", "namespace", "resourceVersion", "uid"))
    except (msgspec.MsgspecError, ValueError, LookupError, TypeError, RecursionError):
        return False


def lines_of(kind: ObjectKind) -> list[str]:
    """Every input of this kind comes, changes and goes; after each comes an ordinary pod or node."""
    lines = []
    for number, given in enumerate(inputs()):
        if given.kind.record is kind.record:
            before, after = given.text, given.later or given.text
            if "[[" not in before + after and readable(before) and readable(after):
                lines += [event("ADDED", before), event("MODIFIED", after), event("DELETED", after)]
            manifest = {**ordinary(kind, number), "apiVersion": kind.api_version, "kind": kind.name}
            lines.append(event("ADDED", json.dumps(manifest)))
    return lines


def ordinary(kind: ObjectKind, number: int) -> dict[str, Any]:
    if kind.record is Node:
        manifest = make_node(f"good-{number}").capacity(cpu=4, memory="8Gi", pods=10).manifest
    elif kind.record is Pod:
        manifest = make_pod(f"good-{number}").requests(cpu="1m").manifest
    else:
        manifest = {"metadata": {"name": f"good-{number}", "uid": f"good-{number}"}}
    manifest["metadata"]["resourceVersion"] = str(number + 2)
    return manifest


@pytest.mark.parametrize("kind", list(known_kinds()), ids=lambda kind: kind.name)
def test_what_comes_after_an_odd_object_arrives(kind: ObjectKind) -> None:
    cluster = Cluster()
    scheduler = Scheduler(cluster)
    queue = SchedulingQueue(scheduler.profiles, cluster.nominations, lambda: 0.0)
    feed = Feed(cluster, queue, scheduler.profiles)
    lines = lines_of(kind)
    refused: list[str] = []

    def on_event(kind: ObjectKind, old: KubeObject | None, new: KubeObject | None) -> None:
        feed.observe(old, new)

    def on_malformed(kind: ObjectKind, error: ObjectError) -> None:
        refused.append(str(error))

    async def follow() -> Reflector:
        server = OneWatch(lines)
        client = cast(ApiClient, server)
        reflector = Reflector(client, kind, on_event, on_malformed=on_malformed)
        task = asyncio.create_task(reflector.run())
        await asyncio.wait_for(server.over.wait(), 30)
        task.cancel()
        assert server.lists == 1, "the watch was given up"
        return reflector

    with Complaints() as complaints:
        reflector = asyncio.run(follow())
    assert not complaints.lines, complaints.lines[0]
    goods = [line for line in lines if '"name": "good-' in line]
    assert goods
    assert sorted({obj.name.partition("-")[0] for obj in reflector.objects.values()}) == ["good"]
    assert len(reflector.objects) == len(goods)
    if kind.record is Pod:
        assert len(queue) == len(goods)
        assert not cluster.pods
    if kind.record is Node:
        assert len(cluster.nodes) == len(goods)
