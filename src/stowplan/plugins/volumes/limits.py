"""NodeVolumeLimits: no more volumes of a CSI driver on a node than its CSINode says it can attach.

Counted are the volumes of the pods on the node (each once, however many pods share it) and what else is
attached to it. Volumes of built-in drivers count for the CSI driver that has replaced theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stowplan.cluster import NodeRow, Nodes
from stowplan.framework import (
    SKIP,
    CycleState,
    FilterPlugin,
    Handle,
    PreFilterPlugin,
    Reads,
    Status,
    Verdict,
    unresolvable,
    unschedulable,
)
from stowplan.framework.events import EventHint
from stowplan.objects import Pod
from stowplan.plugins.volumes.attached import AttachedVolumes
from stowplan.plugins.volumes.claims import VolumeError
from stowplan.plugins.volumes.hints import LIMITS_EVENTS, may_be_attached
from stowplan.plugins.volumes.names import MissingClaimError, VolumeNames

TOO_MANY = unschedulable("node(s) exceed max volume count")


class NodeVolumeLimits(PreFilterPlugin, FilterPlugin):
    """Keeps nodes from having to attach more volumes than they can."""

    reads = Reads.CLUSTER
    shaped_by_template = True

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._names = VolumeNames(handle.cluster)
        self._attached = AttachedVolumes(handle.cluster)

    def concerns(self, pod: Pod) -> bool:
        return any(map(may_be_attached, pod.spec.volumes))

    def events(self) -> Sequence[EventHint]:
        return LIMITS_EVENTS

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        if not pod.spec.volumes:
            return SKIP
        return None if any(map(may_be_attached, pod.spec.volumes)) else SKIP

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        counted = self._attached.count(node.row)
        try:
            names = self._names.of_pending(pod, with_csi=counted.with_csi)
        except MissingClaimError as problem:
            return unresolvable(str(problem))
        if not names or not counted.limits:
            return None
        if counted.problem:
            raise VolumeError(counted.problem)
        return TOO_MANY if counted.exceeded_by(names) else None

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        if self.handle.cluster.in_trial:
            return Verdict.of([self.filter_node(state, pod, node) for node in nodes])
        self._attached.refresh()
        with_csi = not self._attached.without_csi(nodes).all()
        try:
            names = self._names.of_pending(pod, with_csi=with_csi)
        except MissingClaimError as problem:
            return Verdict.rejects(np.ones(len(nodes), np.bool_), unresolvable(str(problem)))
        if names and (uncountable := self._attached.problem_on(nodes)):
            raise VolumeError(uncountable)
        return Verdict.rejects(self._attached.exceeded(names, nodes), TOO_MANY)
