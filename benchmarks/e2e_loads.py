"""What is measured end to end: loads with their sizes, in full and quick."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import msgspec

from benchmarks.e2e_server import NODES, PODS, Post
from benchmarks.loads import Json, node, placed_pod, pod

_FILL_CPU = 800
_SINCE = 0


@dataclass(frozen=True)
class Batch:
    """Pods that are all there when the scheduler starts."""

    name: str
    nodes: int
    pods: Callable[[], Iterator[Json]]
    bindings: int
    """How many of the pods can be bound."""
    placed: Callable[[], Iterator[Json]] = lambda: iter(())
    """Pods that have a node from the beginning."""
    hard: bool = False
    """Whether the time from start to last binding counts, rather than the rate."""


@dataclass(frozen=True)
class Steady:
    """Pods that come at a steady rate to a scheduler that is ready."""

    name: str
    nodes: int
    rate: int
    seconds: int


@dataclass(frozen=True)
class Ready:
    """A full cluster and one pod: how long from start until that is bound."""

    name: str
    nodes: int
    placed: int


Load = Batch | Steady | Ready


def loads(*, quick: bool) -> dict[str, Load]:
    """All loads by name. The quick ones are smaller, and say less."""
    made: list[Load]
    if quick:
        made = [
            _of_kind("basic", 500, 1500),
            _of_kind("mixed", 1000, 1500),
            _of_kind("spread", 1000, 1000),
            _toobig(300, 300, 200),
            _preempt(50, 40, 50),
            Steady("steady", 500, 100, 15),
            Ready("ready", 1000, 5000),
        ]
    else:
        made = [
            _of_kind("basic", 1000, 5000),
            _of_kind("mixed", 5000, 10_000),
            _of_kind("spread", 5000, 5000),
            _toobig(1000, 3000, 2000),
            _preempt(250, 40, 500),
            Steady("steady", 1000, 200, 60),
            Ready("ready", 5000, 50_000),
        ]
    return {load.name: load for load in made}


def _of_kind(kind: str, nodes: int, pods: int) -> Batch:
    return Batch(kind, nodes, lambda: (pod(i, kind) for i in range(pods)), pods)


def _toobig(nodes: int, unplaceable: int, placeable: int) -> Batch:
    """Pods that fit nowhere and are more important, so that they are looked at first."""

    def pods() -> Iterator[Json]:
        return chain(
            (pod(i, "toobig") for i in range(unplaceable)), (pod(i, "basic") for i in range(placeable))
        )

    return Batch("toobig", nodes, pods, placeable, hard=True)


def _preempt(nodes: int, lesser: int, preemptors: int) -> Batch:
    """Nodes full of unimportant pods, five of which have to go for each important one."""

    def placed() -> Iterator[Json]:
        for i in range(nodes * lesser):
            yield placed_pod(f"low-{i:06d}", f"node-{i % nodes:05d}", f"{_FILL_CPU}m", 0, _SINCE)

    def pods() -> Iterator[Json]:
        return (pod(i, "preemptor") for i in range(preemptors))

    return Batch("preempt", nodes, pods, preemptors, placed, hard=True)


def node_posts(count: int) -> Iterator[Post]:
    return ((NODES, msgspec.json.encode(node(i))) for i in range(count))


def pod_posts(pods: Iterator[Json]) -> Iterator[Post]:
    return ((PODS, msgspec.json.encode(each)) for each in pods)


def filling(nodes: int, pods: int) -> Iterator[Json]:
    """Pods of all kinds that have a node."""
    for i in range(pods):
        placed = pod(i, "mixed")
        placed["spec"]["nodeName"] = f"node-{i % nodes:05d}"
        yield placed
