"""NodeUnschedulable: cordoned nodes take only pods that tolerate the taint which stands for cordoning."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from stowplan.cluster import NodeRow, Nodes
from stowplan.framework import CycleState, FilterPlugin, Reads, Status, Verdict, unresolvable
from stowplan.framework.events import Action, EventHint, Resource
from stowplan.objects import Node, Pod, Taint, Toleration, tolerates
from stowplan.plugins.waking import is_same

UNSCHEDULABLE = unresolvable("node(s) were unschedulable")
_CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


@lru_cache(maxsize=4096)
def _tolerates_cordon(tolerations: tuple[Toleration, ...]) -> bool:
    return any(tolerates(toleration, _CORDONED) for toleration in tolerations)


class NodeUnschedulable(FilterPlugin):
    """Rejects nodes whose spec says unschedulable."""

    reads = Reads.NODE
    shaped_by_template = True

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

    def events(self) -> Sequence[EventHint]:
        return (
            EventHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT, _uncordoned, by_shape=True),
            EventHint(Resource.POD, Action.UPDATE_POD_TOLERATION, _tolerates_now, by_shape=True),
        )


def _uncordoned(pod: Pod, old: Node | None, new: Node) -> bool:
    return not new.spec.unschedulable and (old is None or old.spec.unschedulable)


def _tolerates_now(pod: Pod, old: Pod | None, new: Pod) -> bool:
    return is_same(pod, new) and _tolerates_cordon(new.spec.tolerations)
