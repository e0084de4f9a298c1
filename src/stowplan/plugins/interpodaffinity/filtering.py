"""Required terms: of the pod that is to be placed, and anti-affinity of pods that are placed already."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from stowplan.cluster import Cluster, IntColumn, NodeRow, Nodes
from stowplan.cluster.domains import DomainCounts
from stowplan.cluster.matching import PodMatcher
from stowplan.cluster.terms import TermView, terms_of
from stowplan.framework import Status, Verdict, unresolvable, unschedulable
from stowplan.objects import Labels, Pod
from stowplan.plugins.interpodaffinity.wishes import Wishes, fulfils

NOT_NEAR = unresolvable("node(s) didn't match pod affinity rules")
NOT_FAR = unschedulable("node(s) didn't match pod anti-affinity rules")
UNWANTED = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")
_STATUSES = (None, UNWANTED, NOT_FAR, NOT_NEAR)
_UNWANTED, _NOT_FAR, _NOT_NEAR = 1, 2, 3
"""In columns the highest number wins: the rule that upstream looks at first."""


class RequiredState:
    """What PreFilter found, and trials change: how many pods speak for or against each domain."""

    __slots__ = ("_cluster", "_far", "_namespace_labels", "_near", "_unwanted", "_wishes")

    def __init__(self, cluster: Cluster, wishes: Wishes, view: TermView, namespace_labels: Labels) -> None:
        self._cluster = cluster
        self._wishes = wishes
        self._namespace_labels = namespace_labels
        together = wishes.together
        keys = dict.fromkeys(wish.topology_key for wish in wishes.near)
        self._near = [] if together is None else [self._counted(key, together) for key in keys]
        self._far = [self._counted(wish.topology_key, wish.pods) for wish in wishes.far]
        self._unwanted: dict[str, DomainCounts] = {}
        for key, counts in view.anti.items():
            if counts.total:
                domains = cluster.domains.get(key)
                self._unwanted[key] = DomainCounts(domains, counts.by_domain(domains))

    def _counted(self, key: str, matcher: PodMatcher) -> DomainCounts:
        domains = self._cluster.domains.get(key)
        return DomainCounts(domains, self._cluster.counters.counter(matcher).by_domain(domains))

    def clone(self) -> RequiredState:
        twin = RequiredState.__new__(RequiredState)
        twin._cluster = self._cluster
        twin._wishes = self._wishes
        twin._namespace_labels = self._namespace_labels
        twin._near = [counts.clone() for counts in self._near]
        twin._far = [counts.clone() for counts in self._far]
        twin._unwanted = {key: counts.clone() for key, counts in self._unwanted.items()}
        return twin

    @property
    def pointless(self) -> bool:
        """Whether no node can be rejected: the pod requires nothing, and nobody minds it."""
        return not self._wishes.required and not any(counts.total for counts in self._unwanted.values())

    def update(self, pod: Pod, other: Pod, row: int, amount: int) -> None:
        """Another pod came to a row (amount 1) or left it."""
        for term in terms_of(other.spec, other.namespace).required_anti:
            if term.matches(pod.namespace, self._namespace_labels, pod.labels):
                self._unwanted_on(term.topology_key).add(row, amount)
        wishes = self._wishes
        if wishes.together is not None and fulfils(wishes.together, other):
            for counts in self._near:
                counts.add(row, amount)
        for wish, counts in zip(wishes.far, self._far, strict=True):
            if fulfils(wish.pods, other):
                counts.add(row, amount)

    def _unwanted_on(self, key: str) -> DomainCounts:
        counts = self._unwanted.get(key)
        if counts is None:
            domains = self._cluster.domains.get(key)
            counts = self._unwanted[key] = DomainCounts(domains, np.zeros(domains.missing + 1, np.int64))
        return counts

    def _first_of_its_kind(self, pod: Pod) -> bool:
        """Whether nobody is there yet that the pod must be near to, and it is of that kind itself: then it
        may go anywhere where the topology keys are, or such pods could never start."""
        together = self._wishes.together
        return (
            together is not None and not any(counts.total for counts in self._near) and fulfils(together, pod)
        )

    # All nodes

    def verdict(self, pod: Pod, nodes: Nodes) -> Verdict:
        codes: IntColumn | None = None
        for by_domain, counts in self._codes_by_domain(pod):
            found = by_domain.take(counts.domains.lookup[nodes.rows])
            codes = found if codes is None else np.maximum(codes, found)
        return Verdict.passes(len(nodes)) if codes is None else Verdict(codes, _status_of)

    def _codes_by_domain(self, pod: Pod) -> Iterable[tuple[IntColumn, DomainCounts]]:
        """Codes for the domains of every key. Terms often share a key: then nodes are looked up once."""
        merged: dict[str, tuple[IntColumn, DomainCounts]] = {}
        first = bool(self._near) and self._first_of_its_kind(pod)
        for counts in self._near:
            codes = np.zeros(counts.domains.missing + 1, np.int64)
            if not first:
                codes[counts.values() <= 0] = _NOT_NEAR
            codes[counts.domains.missing] = _NOT_NEAR
            _merge(merged, codes, counts)
        for counts in self._far:
            _merge(merged, (counts.values() > 0) * _NOT_FAR, counts)
        for counts in self._unwanted.values():
            _merge(merged, (counts.values() > 0) * _UNWANTED, counts)
        return merged.values()

    # One node

    def status(self, pod: Pod, node: NodeRow) -> Status | None:
        row = node.row
        if self._near and not self._near_enough(pod, row):
            return NOT_NEAR
        if any(_at(counts, row) > 0 for counts in self._far):
            return NOT_FAR
        if any(_at(counts, row) > 0 for counts in self._unwanted.values()):
            return UNWANTED
        return None

    def _near_enough(self, pod: Pod, row: int) -> bool:
        fulfilled = True
        for counts in self._near:
            domain = counts.domains.lookup.item(row)
            if domain == counts.domains.missing:
                return False
            fulfilled = fulfilled and counts.at(domain) > 0
        return fulfilled or self._first_of_its_kind(pod)


def _merge(merged: dict[str, tuple[IntColumn, DomainCounts]], codes: IntColumn, counts: DomainCounts) -> None:
    key = counts.domains.key
    before = merged.get(key)
    merged[key] = (codes if before is None else np.maximum(before[0], codes), counts)


def _at(counts: DomainCounts, row: int) -> int:
    return counts.at(counts.domains.lookup.item(row))


def _status_of(code: int) -> Status:
    status = _STATUSES[code]
    assert status is not None
    return status
