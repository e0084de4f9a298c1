"""SIGUSR2: what the scheduler knows goes to the log, and is compared with what the API server says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from stowplan.cluster import Cluster, NodeRow
from stowplan.objects import Node, Pod
from stowplan.queue.queue import SchedulingQueue

log = logging.getLogger(__name__)

_AT_ONCE = 50
_SETTLING = 2.0


@dataclass(frozen=True)
class Truth:
    """What the API server says at one moment."""

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]


@dataclass(frozen=True)
class Mismatch:
    """What is known here and there, and differs."""

    missed_nodes: frozenset[str] = frozenset()
    """There, and not known here."""
    redundant_nodes: frozenset[str] = frozenset()
    """Known here, and not there any more."""
    missed_pods: frozenset[str] = frozenset()
    """Placed there, and not counted on that node here: `namespace/name@node`."""
    redundant_pods: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return any((self.missed_nodes, self.redundant_nodes, self.missed_pods, self.redundant_pods))

    def __and__(self, other: Mismatch) -> Mismatch:
        return Mismatch(
            self.missed_nodes & other.missed_nodes,
            self.redundant_nodes & other.redundant_nodes,
            self.missed_pods & other.missed_pods,
            self.redundant_pods & other.redundant_pods,
        )


def compare(cluster: Cluster, truth: Truth) -> Mismatch:
    """The differences now. Assumed pods are known here only, as they should be."""
    nodes_here = set(cluster.table.rows)
    nodes_there = {node.name for node in truth.nodes}
    pods_here = {_placed(pod) for uid, pod in cluster.pods.items() if uid not in cluster.assumed}
    assumed = {_placed(pod) for pod in cluster.assumed.values()}
    pods_there = {_placed(pod) for pod in truth.pods if pod.node_name and not pod.finished}
    return Mismatch(
        frozenset(nodes_there - nodes_here),
        frozenset(nodes_here - nodes_there),
        frozenset(pods_there - pods_here - assumed),
        frozenset(pods_here - pods_there),
    )


def _placed(pod: Pod) -> str:
    return f"{pod.key}@{pod.node_name}"


async def dump(
    cluster: Cluster,
    queue: SchedulingQueue,
    fetch: Callable[[], Awaitable[Truth]] | None = None,
    *,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Mismatch:
    """Writes everything to the log, and returns what differs from what `fetch` gets. The world goes on
    meanwhile, so a difference counts only if it is still there when asked again a little later."""
    log.info("dump of the process", extra={"tasks": len(asyncio.all_tasks())})
    async for message, details in _all(cluster, queue):
        log.info(message, extra=details)
    if fetch is None:
        return Mismatch()
    found = compare(cluster, await fetch())
    if found:
        await pause(_SETTLING)
        found &= compare(cluster, await fetch())
    log.info("cache comparer finished" if not found else "cache mismatch", extra=_differences(found))
    return found


def _differences(found: Mismatch) -> dict[str, Any]:
    return {
        "missedNodes": sorted(found.missed_nodes),
        "redundantNodes": sorted(found.redundant_nodes),
        "missedPods": sorted(found.missed_pods),
        "redundantPods": sorted(found.redundant_pods),
    }


async def _all(cluster: Cluster, queue: SchedulingQueue) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    for number, part in enumerate(_parts(cluster, queue)):
        yield part
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)  # scheduling goes on


def _parts(cluster: Cluster, queue: SchedulingQueue) -> Iterator[tuple[str, dict[str, Any]]]:
    yield (
        "dump of the cache",
        {"nodes": cluster.table.size, "pods": len(cluster.pods), "assumed": len(cluster.assumed)},
    )
    for name in list(cluster.table.rows):
        node = cluster.node(name)
        if node is not None:
            yield "dump of a node", _node(cluster, node)
    for pod in list(cluster.assumed.values()):
        yield "dump of an assumed pod", _pod(pod)
    yield "dump of the scheduling queue", {**queue.counts(), "inFlight": queue.in_flight}
    for queued in list(queue.pods()):
        yield (
            "dump of a queued pod",
            {
                "pod": queued.key,
                "place": queue.where(queued.key),
                "attempts": queued.attempts,
                "rejectedBy": sorted(queued.rejectors),
                "gatedBy": queued.gating_plugin,
            },
        )


def _node(cluster: Cluster, row: NodeRow) -> dict[str, Any]:
    offered = row.node.allocatable
    return {
        "node": row.name,
        "allocatable": dict(offered),
        "requested": {resource: row.requested(resource) for resource in offered if resource != "pods"},
        "pods": _keys(row.pods),
        "nominated": _keys(cluster.nominations.on(row.name)),
    }


def _keys(pods: Iterable[Pod]) -> list[str]:
    return [pod.key for pod in pods]


def _pod(pod: Pod) -> dict[str, Any]:
    return {"pod": pod.key, "uid": pod.uid, "node": pod.node_name, "phase": pod.status.phase}
