"""NodeUnschedulable: cordoned nodes take only pods that tolerate the taint which stands for cordoning."""

from __future__ import annotations

from functools import lru_cache

from stowplan.cluster import NodeRow, Nodes
from stowplan.framework import CycleState, FilterPlugin, Reads, Status, Verdict, unresolvable
from stowplan.objects import Pod, Taint, Toleration, tolerates

UNSCHEDULABLE = unresolvable("node(s) were unschedulable")
_CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


@lru_cache(maxsize=4096)
def _tolerates_cordon(tolerations: tuple[Toleration, ...]) -> bool:
    return any(tolerates(toleration, _CORDONED) for toleration in tolerations)


class NodeUnschedulable(FilterPlugin):
    """Rejects nodes whose spec says unschedulable."""

    reads = Reads.NODE

    def concerns(self, pod: Pod) -> bool:
        return not _tolerates_cordon(pod.spec.tolerations)

    def shape(self, pod: Pod) -> bool:
        return _tolerates_cordon(pod.spec.tolerations)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        if not node.node.spec.unschedulable or _tolerates_cordon(pod.spec.tolerations):
            return None
        return UNSCHEDULABLE

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        cordoned = nodes.unschedulable
        if not cordoned.any() or _tolerates_cordon(pod.spec.tolerations):
            return Verdict.passes(len(nodes))
        return Verdict.rejects(cordoned, UNSCHEDULABLE)
