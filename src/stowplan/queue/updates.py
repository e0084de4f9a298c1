"""What exactly changed in a pod or a node, as the events that plugins register for."""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.framework.events import Action, ClusterEvent, Resource, cluster_event
from stowplan.objects import Condition, Node, Pod, placed_request

_POD_ACTIONS = (
    Action.UPDATE,
    Action.UPDATE_POD_LABEL,
    Action.UPDATE_POD_SCALE_DOWN,
    Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
    Action.UPDATE_POD_TOLERATION,
    Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
)
_ASSIGNED = {action: cluster_event(Resource.ASSIGNED_POD, action) for action in _POD_ACTIONS}
_PENDING = {action: cluster_event(Resource.UNSCHEDULABLE_POD, action) for action in _POD_ACTIONS}
_NODE = {
    action: cluster_event(Resource.NODE, action)
    for action in (
        Action.UPDATE_NODE_ALLOCATABLE,
        Action.UPDATE_NODE_LABEL,
        Action.UPDATE_NODE_TAINT,
        Action.UPDATE_NODE_CONDITION,
        Action.UPDATE_NODE_ANNOTATION,
        Action.UPDATE_NODE_DECLARED_FEATURE,
    )
}


def pod_update_events(old: Pod | None, new: Pod) -> tuple[ClusterEvent, ...]:
    """What changed in a pod. When it is nothing in particular, or not known, a plain update."""
    known = _ASSIGNED if new.node_name else _PENDING
    if old is None:
        return (known[Action.UPDATE],)
    found: list[ClusterEvent] = []
    if old.labels is not new.labels and old.labels != new.labels:
        found.append(known[Action.UPDATE_POD_LABEL])
    if _scaled_down(old, new):
        found.append(known[Action.UPDATE_POD_SCALE_DOWN])
    if old.spec is not new.spec:
        if old.spec.scheduling_gates and not new.spec.scheduling_gates:
            found.append(known[Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED])
        # A toleration can be added to a pod, but none can be changed or taken away.
        if len(old.spec.tolerations) != len(new.spec.tolerations):
            found.append(known[Action.UPDATE_POD_TOLERATION])
    if (
        old.status.resource_claim_statuses != new.status.resource_claim_statuses
        or old.status.extended_resource_claim_status != new.status.extended_resource_claim_status
    ):
        found.append(known[Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM])
    return tuple(found) or (known[Action.UPDATE],)


def _scaled_down(old: Pod, new: Pod) -> bool:
    """Whether the pod asks for less of anything than it did."""
    before, after = placed_request(old), placed_request(new)
    if before is after:
        return False
    return any(name not in after or after[name] < amount for name, amount in before.items())


def node_update_events(old: Node, new: Node) -> tuple[ClusterEvent, ...]:
    """What changed in a node. Heartbeats and other changes that no pod can profit from are no event."""
    spec, before = new.spec, old.spec
    status, status_before = new.status, old.status
    found: list[Action] = []
    if before.unschedulable and not spec.unschedulable:
        found.append(Action.UPDATE_NODE_TAINT)
    if status.allocatable != status_before.allocatable and new.allocatable != old.allocatable:
        found.append(Action.UPDATE_NODE_ALLOCATABLE)
    if new.labels is not old.labels and new.labels != old.labels:
        found.append(Action.UPDATE_NODE_LABEL)
    if spec.taints != before.taints and Action.UPDATE_NODE_TAINT not in found:
        found.append(Action.UPDATE_NODE_TAINT)
    if _conditions(status.conditions) != _conditions(status_before.conditions):
        found.append(Action.UPDATE_NODE_CONDITION)
    if new.annotations != old.annotations:
        found.append(Action.UPDATE_NODE_ANNOTATION)
    if status.declared_features != status_before.declared_features:
        found.append(Action.UPDATE_NODE_DECLARED_FEATURE)
    return tuple(_NODE[action] for action in found)


def _conditions(conditions: tuple[Condition, ...]) -> Mapping[str, str]:
    return {condition.type: condition.status for condition in conditions}
