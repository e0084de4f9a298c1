"""VolumeZone: a pod goes where the zone and region labels of its bound volumes point.

A volume may name several zones, separated by two underscores. A node that has none of the zone and region
labels is taken to be in a cluster without zones and takes every volume.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stowplan.cluster import Mask, NodeRow, Nodes
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
from stowplan.objects import Labels, PersistentVolume, Pod, StorageClass
from stowplan.plugins.volumes.claims import (
    CLAIM,
    STORAGE_CLASS,
    VOLUME,
    WAIT_FOR_CONSUMER,
    claim_class,
    named_claims,
    names_claim,
    not_found,
)

NO_ZONE = unresolvable("node(s) had no available volume zone")
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
TOPOLOGY_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_TODAYS_NAME = {BETA_ZONE: ZONE, BETA_REGION: REGION}


class Domain(NamedTuple):
    """A label that a node must have with one of these values. A node without a beta label is looked at
    by today's name of the label."""

    key: str
    values: tuple[str, ...]

    def holds(self, labels: Labels) -> bool:
        value = labels.get(self.key)
        if value is None:
            value = labels.get(_TODAYS_NAME.get(self.key, self.key))
        return value in self.values

    def mask(self, nodes: Nodes) -> Mask:
        here = nodes.with_label_in(self.key, self.values)
        today = _TODAYS_NAME.get(self.key)
        if today is None:
            return here
        return here | ((nodes.label_ids(self.key) < 0) & nodes.with_label_in(today, self.values))


def domains_of(volume: PersistentVolume) -> list[Domain]:
    """Where a volume is, by its labels. A label with an empty part says nothing."""
    domains = []
    for key in TOPOLOGY_LABELS:
        if (text := volume.labels.get(key)) is not None:
            values = tuple(part.strip() for part in text.split("__"))
            if all(values):
                domains.append(Domain(key, values))
    return domains


@dataclass(frozen=True)
class _State:
    domains: tuple[Domain, ...]


class VolumeZone(PreFilterPlugin, FilterPlugin):
    """Keeps pods in the zones of their volumes."""

    reads = Reads.CLUSTER
    shaped_by_template = True

    def concerns(self, pod: Pod) -> bool:
        return any(volume.persistent_volume_claim is not None for volume in pod.spec.volumes)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        if not pod.spec.volumes:
            return SKIP
        domains: list[Domain] = []
        for name in named_claims(pod):
            found = self._domains_of_claim(pod.namespace, name)
            if isinstance(found, Status):
                return found
            domains += found
        if not domains:
            return SKIP
        state[_State] = _State(tuple(dict.fromkeys(domains)))
        return None

    def _domains_of_claim(self, namespace: str, name: str) -> list[Domain] | Status:
        cluster = self.handle.cluster
        if not name:
            return unresolvable("PersistentVolumeClaim had no name")
        claim = cluster.claims.get(f"{namespace}/{name}")
        if claim is None:
            return unresolvable(not_found(CLAIM, name))
        if not claim.spec.volume_name:
            problem = self._why_unbound(claim_class(claim))
            return [] if problem is None else unresolvable(problem)
        volume = cluster.volumes.get(claim.spec.volume_name)
        if volume is None:
            return unresolvable(not_found(VOLUME, claim.spec.volume_name))
        return domains_of(volume)

    def _why_unbound(self, class_name: str) -> str | None:
        """What is wrong with a claim that has no volume; None when it waits for its pod, as it should."""
        if not class_name:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        storage_class = self.handle.cluster.storage_classes.get(class_name)
        if storage_class is None:
            return not_found(STORAGE_CLASS, class_name)
        if storage_class.volume_binding_mode is None:
            return f'VolumeBindingMode not set for StorageClass "{class_name}"'
        if storage_class.volume_binding_mode != WAIT_FOR_CONSUMER:
            return "PersistentVolume had no name"
        return None

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        labels = node.labels
        if not any(key in labels for key in TOPOLOGY_LABELS):
            return None
        noted: _State = state[_State]
        return None if all(domain.holds(labels) for domain in noted.domains) else NO_ZONE

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        noted: _State = state[_State]
        zoned = np.logical_or.reduce([nodes.label_ids(key) >= 0 for key in TOPOLOGY_LABELS])
        fits = np.logical_and.reduce([domain.mask(nodes) for domain in noted.domains])
        return Verdict.rejects(zoned & ~fits, NO_ZONE)

    def events(self) -> Sequence[EventHint]:
        added_or_changed = Action.ADD | Action.UPDATE
        return (
            EventHint(Resource.STORAGE_CLASS, Action.ADD, _waits_for_consumers, by_shape=True),
            EventHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
            EventHint(Resource.PERSISTENT_VOLUME_CLAIM, added_or_changed, names_claim, by_shape=True),
            EventHint(Resource.PERSISTENT_VOLUME, added_or_changed, _is_elsewhere, by_shape=True),
        )


def _waits_for_consumers(pod: Pod, old: None, new: StorageClass) -> bool:
    return new.volume_binding_mode == WAIT_FOR_CONSUMER


def _is_elsewhere(pod: Pod, old: PersistentVolume | None, new: PersistentVolume) -> bool:
    return old is None or domains_of(old) != domains_of(new)
