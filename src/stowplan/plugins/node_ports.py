"""NodePorts: a host port can be taken once on each node and address."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.cluster import NodeRow, Nodes
from stowplan.framework import (
    SKIP,
    CycleState,
    FilterPlugin,
    PreFilterPlugin,
    Reads,
    Status,
    Verdict,
    unschedulable,
)
from stowplan.framework.events import Action, EventHint, Resource
from stowplan.objects import HostPort, Pod
from stowplan.plugins.waking import takes_room

TAKEN = unschedulable("node(s) didn't have free ports for the requested pod ports")


class NodePorts(PreFilterPlugin, FilterPlugin):
    """Rejects nodes where a port that the pod wants is taken."""

    reads = Reads.NODE | Reads.USAGE
    shaped_by_template = True

    def concerns(self, pod: Pod) -> bool:
        return bool(pod.spec.host_ports)

    def shape(self, pod: Pod) -> tuple[HostPort, ...]:
        return pod.spec.host_ports

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        return None if pod.spec.host_ports else SKIP

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        ports = node.cluster.ports
        taken = any(ports.conflicts(wanted, node.row) for wanted in pod.spec.host_ports)
        return TAKEN if taken else None

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        ports = nodes.cluster.ports
        taken = {row for wanted in pod.spec.host_ports for row in ports.rows_in_conflict(wanted)}
        return Verdict.rejects(nodes.mask(list(taken)), TAKEN)

    def events(self) -> Sequence[EventHint]:
        return (
            EventHint(Resource.POD, Action.DELETE, _frees_a_port, by_shape=True),
            EventHint(Resource.NODE, Action.ADD),
        )


def _frees_a_port(pod: Pod, old: Pod, new: None) -> bool:
    return takes_room(old) and any(
        wanted.conflicts(freed) for freed in old.spec.host_ports for wanted in pod.spec.host_ports
    )
