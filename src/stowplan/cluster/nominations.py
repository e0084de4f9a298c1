"""Pods that were promised a node, because victims there are on their way out."""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.cluster.columns import ChangeLog
from stowplan.objects import Pod


class Nominations:
    """Pending pods by the node they are nominated to. They count on that node for pods of the same or
    lower priority; `log` has the nodes whose nominations changed."""

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._pods: dict[str, dict[str, Pod]] = {}
        self.log = ChangeLog[str]()

    def add(self, pod: Pod, node_name: str) -> None:
        """Nominates the pod to a node, instead of the one it was nominated to before."""
        self.remove(pod.uid)
        self._node_of[pod.uid] = node_name
        self._pods.setdefault(node_name, {})[pod.uid] = pod
        self.log.append(node_name)

    def remove(self, uid: str) -> str | None:
        """Ends a nomination and returns the node it was for."""
        node_name = self._node_of.pop(uid, None)
        if node_name is not None:
            pods = self._pods[node_name]
            del pods[uid]
            if not pods:
                del self._pods[node_name]
            self.log.append(node_name)
        return node_name

    def node_of(self, uid: str) -> str | None:
        return self._node_of.get(uid)

    def on(self, node_name: str) -> Iterator[Pod]:
        """The pods nominated to a node."""
        return iter(self._pods.get(node_name, {}).values())

    def nodes(self) -> Iterator[str]:
        """The nodes that pods are nominated to."""
        return iter(self._pods)

    def counting_against(self, pod: Pod, node_name: str) -> list[Pod]:
        """The pods nominated to a node that a decision about `pod` must count there."""
        others = self._pods.get(node_name)
        if not others:
            return []
        return [
            other
            for other in others.values()
            if other.spec.priority >= pod.spec.priority and other.uid != pod.uid
        ]

    def __len__(self) -> int:
        return len(self._node_of)
