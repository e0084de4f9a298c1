"""What hints have in common: small questions about the object that an event is about."""

from __future__ import annotations

from stowplan.objects import Pod


def takes_room(pod: Pod) -> bool:
    """Whether a pod is on a node or promised to one, so that it counted for others."""
    return bool(pod.node_name or pod.status.nominated_node_name)


def is_same(pod: Pod, other: Pod) -> bool:
    """Whether the event is about the rejected pod itself."""
    return pod.uid == other.uid
