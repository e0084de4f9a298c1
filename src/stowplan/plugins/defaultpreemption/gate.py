"""Keeps preemptors out of the queue while their victims are being removed."""

from __future__ import annotations

from collections.abc import Iterable

from stowplan.cluster import Cluster
from stowplan.objects import Pod


class Gate:
    """Tried again before its victims are gone, a preemptor would only find new ones, or none. It is let in
    when they are, and at the latest when all has been done to remove them: some take their time to leave.

    Thousands of pods may go while hundreds of preemptors wait. So preemptors are found by the node that they
    get, and looked at when something changed there.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._victims: dict[str, tuple[Pod, ...]] = {}
        """By the uid of the pod that gets their room."""
        self._by_node: dict[str, dict[str, Pod]] = {}
        self._kept_out: set[str] = set()
        """The uids of those that stood before it while it was closed; nobody waits to hear of the others."""
        self._opened: list[str] = []
        self._usage_position = self._node_position = 0
        self._lost: frozenset[str] = frozenset()
        """Nodes that are gone: what happens to their pods is in no log."""

    def close(self, pod: Pod, victims: tuple[Pod, ...]) -> None:
        """Keeps the pod out as long as one of the victims stays."""
        self.open(pod)
        self._victims[pod.uid] = victims
        self._by_node.setdefault(victims[0].node_name, {})[pod.uid] = pod

    def open(self, pod: Pod) -> None:
        """Lets the pod in, whatever became of its victims."""
        victims = self._victims.pop(pod.uid, None)
        if victims is None:
            return
        node = victims[0].node_name
        del self._by_node[node][pod.uid]
        if not self._by_node[node]:
            del self._by_node[node]
        if pod.uid in self._kept_out:
            self._kept_out.discard(pod.uid)
            self._opened.append(pod.key)

    def keeps_out(self, pod: Pod) -> bool:
        if not any(map(self._stays, self._victims.get(pod.uid, ()))):
            return False
        self._kept_out.add(pod.uid)
        return True

    def opened(self) -> Iterable[str]:
        """The pods that are not kept out any more, each at least once."""
        opened, self._opened = self._opened, []
        for node in self._changed_nodes():
            opened += [pod.key for pod in self._by_node.get(node, {}).values() if not self.keeps_out(pod)]
        return opened

    def _changed_nodes(self) -> Iterable[str]:
        """The nodes on which pods came or went since this was asked last."""
        table = self._cluster.table
        rows = table.usage_log.since(self._usage_position)
        self._usage_position = table.usage_log.position
        if rows is None or self._node_position != table.node_log.position:
            self._node_position = table.node_log.position
            self._lost = frozenset(name for name in self._by_node if name not in table.rows)
            return tuple(self._by_node)
        return {table.nodes[row].name for row in rows} | self._lost

    def _stays(self, victim: Pod) -> bool:
        now = self._cluster.pods.get(victim.uid)
        return now is not None and now.node_name == victim.node_name
