"""Pods that nothing can be done for now, found by the plugins that rejected them.

Thousands of pods of a few deployments are parked here when a cluster is full. They stand in groups of
pods that are alike to every plugin that judges by shape, so that an event costs a few questions, not
thousands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stowplan.objects import Labels, OwnerReference, Pod, PodSpec
from stowplan.queue.queued import QueuedPod


class _Kind(NamedTuple):
    """What the pods of a group have in common: a shape, and who rejected them."""

    spec: PodSpec
    labels: Labels
    namespace: str
    controller: OwnerReference | None
    unschedulable_plugins: frozenset[str]
    pending_plugins: frozenset[str]
    gating_plugin: str


class Alike:
    """Parked pods of one shape, rejected by the same plugins."""

    __slots__ = ("kind", "let_in", "pods", "rejectors")

    def __init__(self, kind: _Kind) -> None:
        self.kind = kind
        self.rejectors = kind.unschedulable_plugins | kind.pending_plugins
        self.pods: dict[str, QueuedPod] = {}
        self.let_in: dict[str, QueuedPod] = {}
        """Those that the plugin which kept them out would let in by now."""

    @property
    def example(self) -> QueuedPod:
        """One of them."""
        return next(iter(self.pods.values()))


class UnschedulablePods:
    """An event concerns the pods that certain plugins rejected; the others are not even looked at."""

    def __init__(self) -> None:
        self._groups: dict[_Kind, Alike] = {}
        self._group_of: dict[str, Alike] = {}
        self._by_plugin: dict[str, dict[Alike, None]] = {}

    def put(self, queued: QueuedPod) -> None:
        """Adds a pod, or notes that it changed or that other plugins reject it now."""
        kind = _kind_of(queued.pod, queued)
        before = self._group_of.get(queued.key)
        let_in = False
        if before is not None:
            if before.kind == kind:
                before.pods[queued.key] = queued
                return
            let_in = queued.key in before.let_in
            self.remove(queued.key)
        group = self._groups.get(kind)
        if group is None:
            group = self._groups[kind] = Alike(kind)
            for plugin in group.rejectors:
                self._by_plugin.setdefault(plugin, {})[group] = None
        group.pods[queued.key] = queued
        self._group_of[queued.key] = group
        if let_in:
            group.let_in[queued.key] = queued

    def remove(self, key: str) -> QueuedPod | None:
        group = self._group_of.pop(key, None)
        if group is None:
            return None
        queued = group.pods.pop(key)
        group.let_in.pop(key, None)
        if not group.pods:
            del self._groups[group.kind]
            for plugin in group.rejectors:
                del self._by_plugin[plugin][group]
        return queued

    def get(self, key: str) -> QueuedPod | None:
        group = self._group_of.get(key)
        return None if group is None else group.pods[key]

    def let_in(self, keys: Iterable[str]) -> None:
        """Notes that these pods are not kept out any more."""
        for key in keys:
            group = self._group_of.get(key)
            if group is not None:
                group.let_in[key] = group.pods[key]

    def keep_out(self, key: str) -> None:
        """Notes that this pod still is."""
        self._group_of[key].let_in.pop(key, None)

    def rejected_by(self, plugins: Iterable[str]) -> list[Alike]:
        """The groups that at least one of the plugins rejected, each once."""
        found: dict[Alike, None] = {}
        for plugin in sorted(plugins):
            found.update(self._by_plugin.get(plugin, {}))
        return list(found)

    def groups(self) -> list[Alike]:
        return list(self._groups.values())

    @property
    def gated(self) -> int:
        """How many pods a PreEnqueue plugin keeps out."""
        return sum(len(group.pods) for kind, group in self._groups.items() if kind.gating_plugin)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter([group.pods[key] for key, group in self._group_of.items()])

    def __len__(self) -> int:
        return len(self._group_of)

    def __contains__(self, key: object) -> bool:
        return key in self._group_of


def _kind_of(pod: Pod, queued: QueuedPod) -> _Kind:
    return _Kind(
        pod.spec,
        pod.labels,
        pod.namespace,
        pod.controller,
        queued.unschedulable_plugins,
        queued.pending_plugins,
        queued.gating_plugin,
    )
