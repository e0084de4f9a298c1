"""Asks a plugin whether something that happened brings back a pod that it rejected."""

from __future__ import annotations

from stowplan.engine.feed import OBJECT_EVENTS
from stowplan.framework import Plugin
from stowplan.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    Action,
    ClusterEvent,
)
from stowplan.objects import KubeObject, Node, Pod
from stowplan.queue import QueuedPod
from stowplan.queue.hints import Hints, Worth, judge
from stowplan.queue.updates import node_update_events, pod_update_events


def wakes(plugin: Plugin, pod: Pod, old: KubeObject | None, new: KubeObject | None) -> bool:
    """Whether the pod is tried again when this object came (no old one), changed, or went (no new one)."""
    hints = Hints([plugin])
    queued = QueuedPod(pod, 0.0, unschedulable_plugins=frozenset((plugin.name,)))
    return any(
        judge(queued, hints.for_event(event).registered, old, new) is not Worth.NOTHING
        for event in _events(old, new)
    )


def _events(old: KubeObject | None, new: KubeObject | None) -> tuple[ClusterEvent, ...]:
    if isinstance(old, Pod) and isinstance(new, Pod):
        return pod_update_events(old, new)
    if isinstance(old, Node) and isinstance(new, Node):
        return node_update_events(old, new)
    obj = new if new is not None else old
    assert obj is not None
    if isinstance(obj, Pod):
        return (ASSIGNED_POD_DELETE if new is None else ASSIGNED_POD_ADD,)
    if isinstance(obj, Node):
        return (NODE_DELETE if new is None else NODE_ADD,)
    action = Action.DELETE if new is None else (Action.ADD if old is None else Action.UPDATE)
    return (OBJECT_EVENTS[type(obj)][action],)
