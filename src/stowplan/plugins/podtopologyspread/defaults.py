"""Which pods belong together, for pods that do not say how they want to be spread.

They belong to the services that select them and to the controller that made them; its pods are to be
spread. Without either, there is nothing to spread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from stowplan.cluster import Cluster
from stowplan.objects import (
    EVERYTHING,
    Labels,
    LabelSelector,
    Pod,
    Selector,
    SelectorError,
    compile_selector,
    selector_from_labels,
)

_MAX_KNOWN = 8192
_Owner = Mapping[str, str] | LabelSelector | None
"""The selector of a replication controller, or of a replica or stateful set."""


class _Known(NamedTuple):
    services_version: int
    owner: _Owner
    selector: Selector


class DefaultSelectors:
    """The selector of each kind of pod, found once as long as services and owners stay the same."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[tuple[str, Labels], _Known] = {}

    def selector_for(self, pod: Pod) -> Selector:
        """What selects the pods that this one belongs with; EVERYTHING when that is not known."""
        services = self._cluster.services
        owner = self._owner_selector(pod) if pod.owners else None
        if owner is None and not len(services):
            return EVERYTHING
        kind = (pod.namespace, pod.labels)
        known = self._known.get(kind)
        if known is None or known.services_version != services.version or known.owner != owner:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            known = self._known[kind] = _Known(services.version, owner, self._find(pod, owner))
        return known.selector

    def _owner_selector(self, pod: Pod) -> _Owner:
        """The selector of the pod's controller, if that is of a kind that keeps equal pods running."""
        owner = pod.controller
        if owner is None:
            return None
        key = f"{pod.namespace}/{owner.name}"
        match owner.api_version, owner.kind:
            case "v1", "ReplicationController":
                controller = self._cluster.replication_controllers.get(key)
                return None if controller is None else controller.spec.selector
            case "apps/v1", "ReplicaSet":
                replicas = self._cluster.replica_sets.get(key)
                return None if replicas is None else replicas.spec.selector
            case "apps/v1", "StatefulSet":
                stateful = self._cluster.stateful_sets.get(key)
                return None if stateful is None else stateful.spec.selector
        return None

    def _find(self, pod: Pod, owner: _Owner) -> Selector:
        merged: dict[str, str] = {}
        for service in self._cluster.services.in_namespace(pod.namespace):
            selector = service.spec.selector
            if all(pod.labels.get(key) == value for key, value in selector.items()):
                merged |= selector
        if isinstance(owner, Mapping):
            return selector_from_labels({**merged, **owner})
        try:
            of_owner = compile_selector(owner)
        except SelectorError:
            return selector_from_labels(merged)
        return selector_from_labels(merged) if of_owner.selects_nothing else of_owner.also(merged)
