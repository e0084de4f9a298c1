"""NodeName: a pod that already names its node goes nowhere else."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.cluster import NodeRow, Nodes
from stowplan.framework import CycleState, FilterPlugin, Reads, Status, Verdict, unresolvable
from stowplan.framework.events import Action, EventHint, Resource
from stowplan.objects import Pod

OTHER_NODE = unresolvable("node(s) didn't match the requested node name")


class NodeName(FilterPlugin):
    """Rejects all nodes but the one that the pod names."""

    reads = Reads.NODE
    shaped_by_template = True

    def concerns(self, pod: Pod) -> bool:
        return bool(pod.node_name)

    def shape(self, pod: Pod) -> str:
        return pod.node_name

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        return None if pod.node_name in ("", node.name) else OTHER_NODE

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        if not pod.node_name:
            return Verdict.passes(len(nodes))
        row = nodes.cluster.row_of(pod.node_name)
        return Verdict.rejects(~nodes.mask([] if row is None else [row]), OTHER_NODE)

    def events(self) -> Sequence[EventHint]:
        return (EventHint(Resource.NODE, Action.ADD),)
