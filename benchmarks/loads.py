"""Nodes and pods to measure with: of 32 CPUs in three zones, and of a few kinds.

A load is the objects that are there already and the pods to decide, as plain JSON objects, so that the same
bytes can be fed to any scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

CAPACITY = {"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "500Gi"}
READY = {"type": "Ready", "status": "True", "reason": "x", "message": "x"}
HIGH_PRIORITY = 1000
MIXED = ("basic", "spread", "anti", "affinity", "nodeaff")
_BATCH = 500


@dataclass(frozen=True)
class Load:
    """What is there, and the pods to decide in order."""

    name: str
    nodes: int
    there: Callable[[], Iterator[Json]]
    pods: Callable[[], Iterator[Json]]


def node(i: int) -> Json:
    name = f"node-{i:05d}"
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": f"z{i % 3}",
        "topology.kubernetes.io/region": "r0",
        "tier": "abcd"[i % 4],
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": CAPACITY, "allocatable": CAPACITY, "conditions": [READY]},
    }


def pod(i: int, kind: str) -> Json:
    """Pod number i of a kind; one of the kinds of `mixed` in turn."""
    if kind == "mixed":
        return pod(i, MIXED[i % len(MIXED)])
    app, group = f"app-{i % 20}", str(i // _BATCH)
    labels = {"app": app, "grp": group} | ({"number": str(i)} if kind == "unique" else {})
    return _named(f"{kind}-{i:06d}", labels, _SPECS[kind](i, app, group))


def placed_pod(name: str, node_name: str, cpu: str, priority: int, second: int) -> Json:
    """A pod that runs on a node since some second of a day."""
    placed = _named(name, {"app": name.partition("-")[0]}, _spec(cpu=cpu, priority=priority))
    placed["spec"]["nodeName"] = node_name
    started = f"2026-01-01T{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}Z"
    placed["status"] = {"phase": "Running", "startTime": started}
    return placed


def _named(name: str, labels: dict[str, str], spec: Json) -> Json:
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _spec(cpu: str = "100m", memory: str | None = None, priority: int = 0) -> Json:
    requests = {"cpu": cpu} | ({"memory": memory} if memory else {})
    container = {"name": "c", "image": "example.com/pause:3.10", "resources": {"requests": requests}}
    return {
        "schedulerName": "default-scheduler",
        "priority": priority,
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }


def _basic(i: int = 0, app: str = "", group: str = "") -> Json:
    return _spec(memory="500Mi")


def _unique(i: int, app: str, group: str) -> Json:
    """Every pod asks for something else (and has labels of its own), so that nothing can be remembered from
    one for the next."""
    return _spec(cpu=f"{100 + i}m", memory=f"{500 + i}Mi")


def _spread(i: int, app: str, group: str) -> Json:
    constraint = {
        "maxSkew": 5,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    return _basic() | {"topologySpreadConstraints": [constraint]}


def _anti(i: int, app: str, group: str) -> Json:
    term = {
        "labelSelector": {"matchLabels": {"app": app, "grp": group}},
        "topologyKey": "kubernetes.io/hostname",
    }
    return _affine("podAntiAffinity", {"requiredDuringSchedulingIgnoredDuringExecution": [term]})


def _affinity(i: int, app: str, group: str) -> Json:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "topology.kubernetes.io/zone"}
    weighted = {"weight": 10, "podAffinityTerm": term}
    return _affine("podAffinity", {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]})


def _nodeaff(i: int, app: str, group: str) -> Json:
    terms = [{"matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return _affine("nodeAffinity", required)


def _affine(kind: str, affinity: Json) -> Json:
    return _basic() | {"affinity": {kind: affinity}}


_SPECS: dict[str, Callable[[int, str, str], Json]] = {
    "basic": _basic,
    "unique": _unique,
    "spread": _spread,
    "anti": _anti,
    "affinity": _affinity,
    "nodeaff": _nodeaff,
    "preemptor": lambda i, app, group: _spec(cpu="4", priority=HIGH_PRIORITY),
    "toobig": lambda i, app, group: _spec(cpu="400", priority=HIGH_PRIORITY),
}

KINDS = (*_SPECS, "mixed")


def of_kind(kind: str, nodes: int, pods: int) -> Load:
    """Pods of one kind on empty nodes."""
    return Load(kind, nodes, lambda: map(node, range(nodes)), lambda: (pod(i, kind) for i in range(pods)))


def unplaceable(nodes: int, pods: int, every: int = 10) -> Load:
    """Pods of one shape that fit nowhere, with another pod placed after every few of them."""

    def mixed() -> Iterator[Json]:
        for i in range(pods):
            yield pod(i, "basic" if i % every == every - 1 else "toobig")

    return Load("toobig", nodes, lambda: map(node, range(nodes)), mixed)


def preemption(nodes: int, lesser: int, cpu: int, preemptors: int) -> Load:
    """Full nodes: each has a number of low-priority pods of so many millicores, and one that may stay in what
    is left; and pods of high priority that need some of the others gone."""
    rest = 32000 - lesser * cpu

    def there() -> Iterator[Json]:
        yield from map(node, range(nodes))
        for i in range(nodes * lesser):
            yield placed_pod(f"low-{i:06d}", f"node-{i % nodes:05d}", f"{cpu}m", 0, i)
        for i in range(nodes if rest else 0):
            yield placed_pod(f"high-{i:06d}", f"node-{i:05d}", f"{rest}m", 2 * HIGH_PRIORITY, i)

    name = f"preempt 1 of {lesser}" if cpu >= 4000 else f"preempt {-(-4000 // cpu)} of {lesser}"
    return Load(name, nodes, there, lambda: (pod(i, "preemptor") for i in range(preemptors)))


def filled(nodes: int, pods: int) -> Iterator[Json]:
    """Nodes with pods placed on them in turn."""
    yield from map(node, range(nodes))
    for i in range(pods):
        placed = pod(i, "mixed")
        placed["spec"]["nodeName"] = f"node-{i % nodes:05d}"
        yield placed
