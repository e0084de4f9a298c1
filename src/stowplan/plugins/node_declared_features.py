"""NodeDeclaredFeatures: what a pod uses, its node's kubelet must have declared that it can do.

A node lists features in its status; a pod's spec tells which of them it needs. Only features that a spec
can show are known here; others concern changes of running pods.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stowplan.cluster import NodeRow, Nodes
from stowplan.framework import (
    SKIP,
    CycleState,
    FilterPlugin,
    PreFilterPlugin,
    Reads,
    Status,
    Verdict,
    unresolvable,
)
from stowplan.framework.events import Action, EventHint, Resource
from stowplan.objects import Node, Pod, PodSpec
from stowplan.plugins.waking import is_same

MISSING = unresolvable("node(s) didn't match Pod's required features")
RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_HOST_NETWORK = "UserNamespacesHostNetworkSupport"


class NodeDeclaredFeatures(PreFilterPlugin, FilterPlugin):
    """Rejects nodes that lack a feature the pod needs."""

    reads = Reads.NODE
    shaped_by_template = True

    def concerns(self, pod: Pod) -> bool:
        return bool(required_features(pod.spec))

    def shape(self, pod: Pod) -> frozenset[str]:
        return required_features(pod.spec)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        return None if required_features(pod.spec) else SKIP

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        declared = node.node.status.declared_features
        return None if required_features(pod.spec).issubset(declared) else MISSING

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        required = required_features(pod.spec)
        lists = [node.status.declared_features for node in nodes.objects]
        lacking = {declared: not required.issubset(declared) for declared in set(lists)}
        return Verdict.rejects(np.array([lacking[declared] for declared in lists], np.bool_), MISSING)

    def events(self) -> Sequence[EventHint]:
        on_nodes = Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE
        return (
            EventHint(Resource.NODE, on_nodes, _declares_others, by_shape=True),
            EventHint(Resource.POD, Action.UPDATE, _requires_others, by_shape=True),
        )


def _declares_others(pod: Pod, old: Node | None, new: Node) -> bool:
    return old is None or old.status.declared_features != new.status.declared_features


def _requires_others(pod: Pod, old: Pod | None, new: Pod) -> bool:
    if not is_same(pod, new):
        return False
    return old is None or required_features(old.spec) != required_features(new.spec)


def required_features(spec: PodSpec) -> frozenset[str]:
    """The features that a node must declare to run pods with this spec."""
    required = set()
    containers = (*spec.containers, *spec.init_containers)
    if any(rule.action == "RestartAllContainers" for c in containers for rule in c.restart_policy_rules):
        required.add(RESTART_ALL_CONTAINERS)
    if spec.host_network and spec.host_users is False:
        required.add(USER_NAMESPACES_HOST_NETWORK)
    return frozenset(required)
