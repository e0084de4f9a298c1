"""The cluster's books, kept from nothing but what the API server says: who is where, and may that be.

Written without a line of the scheduler that it checks. Quantities are those of the test's own load. One
thread writes while others read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
_FINISHED = frozenset({"Succeeded", "Failed"})


def _milli_cpu(quantity: str) -> int:
    return int(quantity[:-1]) if quantity.endswith("m") else 1000 * int(quantity)


def _bytes(quantity: str) -> int:
    return int(quantity[:-2]) * _UNITS[quantity[-2:]] if quantity[-2:] in _UNITS else int(quantity)


@dataclass(frozen=True)
class Amount:
    """Room, or what is asked of it."""

    cpu: int = 0
    memory: int = 0
    pods: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.cpu + other.cpu, self.memory + other.memory, self.pods + other.pods)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.cpu - other.cpu, self.memory - other.memory, self.pods - other.pods)

    @property
    def negative(self) -> bool:
        return self.cpu < 0 or self.memory < 0 or self.pods < 0


@dataclass(frozen=True)
class PodNow:
    """What counts about a pod."""

    uid: str
    name: str
    node: str
    asks: Amount
    selector: Mapping[str, str]
    conditions: tuple[Mapping[str, Any], ...]
    finished: bool


def read_pod(manifest: Mapping[str, Any]) -> PodNow:
    metadata, spec, status = manifest["metadata"], manifest["spec"], manifest.get("status", {})
    cpu = memory = 0
    for container in spec["containers"]:
        requests = container.get("resources", {}).get("requests", {})
        cpu += _milli_cpu(requests.get("cpu", "0"))
        memory += _bytes(requests.get("memory", "0"))
    return PodNow(
        metadata["uid"],
        metadata["name"],
        spec.get("nodeName", ""),
        Amount(cpu, memory, 1),
        spec.get("nodeSelector", {}),
        tuple(status.get("conditions", ())),
        status.get("phase") in _FINISHED,
    )


@dataclass
class _Node:
    name: str
    labels: Mapping[str, str]
    offers: Amount
    used: Amount = Amount()
    overfull: bool = False

    def takes(self, pod: PodNow) -> bool:
        fits = not (self.offers - self.used - pod.asks).negative
        return fits and all(self.labels.get(key) == value for key, value in pod.selector.items())


@dataclass
class Ledger:
    """All pods and nodes as last seen, and everything that should not have been seen."""

    violations: list[str] = field(default_factory=list)
    bindings: int = 0
    """How many pods were seen getting a node."""
    last_binding: float = 0.0
    relists: int = 0
    pods: dict[str, PodNow] = field(default_factory=dict)
    """By uid."""
    deleted: set[str] = field(default_factory=set)
    """Names of pods that were seen going."""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _nodes: dict[str, _Node] = field(default_factory=dict)
    _accepted: dict[str, str] = field(default_factory=dict)
    """Which node the API server accepted for a pod, by uid."""

    # What the API server says

    def add_node(self, manifest: Mapping[str, Any]) -> None:
        """Nodes stay as they are."""
        offers = manifest["status"]["allocatable"]
        name = manifest["metadata"]["name"]
        room = Amount(_milli_cpu(offers["cpu"]), _bytes(offers["memory"]), int(offers["pods"]))
        self._nodes[name] = _Node(name, manifest["metadata"].get("labels", {}), room)

    def observe(self, kind: str, manifest: Mapping[str, Any], now: float) -> None:
        """An event of the watch."""
        pod = read_pod(manifest)
        with self._lock:
            if kind == "DELETED":
                self._remove(pod.uid)
            else:
                self._put(pod, now)

    def relisted(self, manifests: Iterable[Mapping[str, Any]], now: float) -> None:
        """Everything was fetched anew, because the watch's place was lost."""
        listed = {pod.uid: pod for pod in map(read_pod, manifests)}
        with self._lock:
            self.relists += 1
            for uid in [uid for uid in self.pods if uid not in listed]:
                self._remove(uid)
            for pod in listed.values():
                self._put(pod, now)

    def _put(self, pod: PodNow, now: float) -> None:
        old = self.pods.get(pod.uid)
        before = old.node if old is not None else ""
        if before and pod.node != before:
            self.violations.append(f"{pod.name} was on {before} and is on {pod.node or 'no node'} now")
        if old is not None and old.node and not old.finished:
            self._take_off(old)
        self.pods[pod.uid] = pod
        if not pod.node:
            return
        if not pod.finished:
            self._put_on(pod)
        if not before:
            self.bindings += 1
            self.last_binding = now
            accepted = self._accepted.get(pod.uid)
            if accepted is not None and accepted != pod.node:
                self.violations.append(f"{pod.name} is on {pod.node}, but was accepted for {accepted}")

    def _remove(self, uid: str) -> None:
        old = self.pods.pop(uid, None)
        if old is not None:
            self.deleted.add(old.name)
            if old.node and not old.finished:
                self._take_off(old)

    def _put_on(self, pod: PodNow) -> None:
        node = self._nodes.get(pod.node)
        if node is None:
            self.violations.append(f"{pod.name} is on {pod.node}, which does not exist")
            return
        node.used += pod.asks
        left = node.offers - node.used
        if left.negative and not node.overfull:
            node.overfull = True
            self.violations.append(f"{pod.name} overfills {node.name}: {left} is left")

    def _take_off(self, pod: PodNow) -> None:
        node = self._nodes.get(pod.node)
        if node is not None:
            node.used -= pod.asks

    # What the proxies saw

    def accepted(self, uid: str, pod: str, node: str) -> None:
        """The API server said yes to a binding."""
        with self._lock:
            if uid in self._accepted:
                self.violations.append(f"{pod} was bound twice: to {self._accepted[uid]} and to {node}")
            self._accepted[uid] = node

    # What is to be said about it

    def pending(self) -> list[PodNow]:
        with self._lock:
            return [pod for pod in self.pods.values() if not pod.node]

    def placed(self) -> list[PodNow]:
        with self._lock:
            return [pod for pod in self.pods.values() if pod.node and not pod.finished]

    def room_for(self, pod: PodNow) -> str | None:
        """A node that would take the pod."""
        return next((node.name for node in self._nodes.values() if node.takes(pod)), None)

    def waiting_for_nothing(self) -> list[PodNow]:
        """Pods that are pending although a node would take them."""
        found: dict[tuple[Amount, tuple[tuple[str, str], ...]], str | None] = {}
        lost = []
        with self._lock:
            for pod in self.pending():
                shape = (pod.asks, tuple(pod.selector.items()))
                if shape not in found:
                    found[shape] = self.room_for(pod)
                if found[shape] is not None:
                    lost.append(pod)
        return lost

    def final_violations(self) -> Iterator[str]:
        """What is wrong about pods that are pending in the end."""
        for pod in self.waiting_for_nothing():
            yield f"{pod.name} is pending although {self.room_for(pod)} has room"
        for pod in self.pending():
            condition = next((each for each in pod.conditions if each["type"] == "PodScheduled"), None)
            said = condition.get("message", "") if condition is not None else ""
            if condition is None or condition["status"] != "False" or "nodes are available" not in said:
                yield f"{pod.name} is pending without a condition that says why ({condition})"
