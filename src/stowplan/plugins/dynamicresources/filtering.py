"""Which nodes can take a pod with claims, how good they are, and what it gets there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from stowplan.cluster import Cluster, IntColumn, Mask, Nodes
from stowplan.cluster.extended import extended_resources
from stowplan.cluster.selection import any_term_mask
from stowplan.framework.status import Status, unresolvable
from stowplan.framework.verdict import Verdict
from stowplan.objects import Node, Pod
from stowplan.objects.devices import AllocationResult
from stowplan.plugins.dynamicresources import extended
from stowplan.plugins.dynamicresources.cycle import PodClaims, Variant
from stowplan.plugins.dynamicresources.ledger import Ledger
from stowplan.plugins.dynamicresources.memory import BAD_POOLS, BROKEN, NOT_FOUND, Questions
from stowplan.plugins.dynamicresources.results import allocation_score, build_results
from stowplan.plugins.dynamicresources.search import INVALID_POOLS

UNAVAILABLE = unresolvable("resourceclaim not available on the node")
_STALE = unresolvable("cannot schedule extended resource claim")
_STATUSES: tuple[Status, ...] = (
    unresolvable("cannot allocate all claims"),
    unresolvable(INVALID_POOLS),
    unresolvable("cannot fit resource"),
    UNAVAILABLE,
)
_NOT_ALLOCATED, _BAD_POOLS, _NO_RESOURCE, _UNAVAILABLE = range(1, 5)
_CODE_OF = {NOT_FOUND: _NOT_ALLOCATED, BAD_POOLS: _BAD_POOLS}


class FilterTimeoutError(ValueError):
    """The search took too long on a node."""

    def __init__(self, node_name: str) -> None:
        super().__init__(f"node {node_name}: timed out trying to allocate devices")


class Filtering:
    """Judges nodes for pods with claims."""

    def __init__(self, cluster: Cluster, ledger: Ledger, tick: Callable[[Node], Callable[[], None]]) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._questions = Questions(cluster, ledger)
        self._classes = extended_resources(cluster)
        self._tick = tick

    # Filter

    def verdict(self, pod: Pod, work: PodClaims, nodes: Nodes) -> Verdict:
        """Why nodes cannot take the pod. Raises when a claim or class is broken."""
        if work.stale_special is not None:
            return Verdict.rejects(np.ones(len(nodes), np.bool_), _STALE)
        codes = np.zeros(len(nodes), np.int64)
        for positions, variant in self._groups(pod, work, nodes):
            some = nodes if positions is None else nodes.at(positions)
            where = slice(None) if positions is None else positions
            codes[where] = self._judge(work, variant, some)
        if work.resources:
            codes[self._without_resource(work, nodes)] = _NO_RESOURCE
        return Verdict(codes, lambda code: _STATUSES[code - 1])

    def _judge(self, work: PodClaims, variant: Variant, nodes: Nodes) -> IntColumn:
        codes = np.zeros(len(nodes), np.int64)
        if not variant.numbers and not work.own:
            return codes
        codes[self.unavailable(work, nodes)] = _UNAVAILABLE
        if variant.question is not None:
            variant.question.refresh(nodes, self._tick)
            found = variant.question.codes(nodes)
            broken = np.flatnonzero(found == BROKEN)
            if broken.size:
                raise variant.question.failure(variant.claims, nodes.at(broken[:1])[0].node)
            for answer, code in _CODE_OF.items():
                codes[found == answer] = code
        return codes

    def unavailable(self, work: PodClaims, nodes: Nodes) -> Mask:
        """The nodes from which some claim that has devices cannot be used."""
        if work.unready:
            return np.ones(len(nodes), np.bool_)
        rejected = np.zeros(len(nodes), np.bool_)
        for terms in work.reachable.values():
            rejected |= ~any_term_mask(nodes, terms)
        return rejected

    def _without_resource(self, work: PodClaims, nodes: Nodes) -> Mask:
        """The nodes that lack a resource of the pod that no class of devices stands behind."""
        lacking = np.zeros(len(nodes), np.bool_)
        for resource in work.resources:
            if self._classes.class_of(resource) is None:
                lacking |= np.fromiter(
                    (resource not in node.allocatable for node in nodes.objects), np.bool_, len(nodes)
                )
        return lacking

    # What has to be allocated where

    def _groups(self, pod: Pod, work: PodClaims, nodes: Nodes) -> Iterator[tuple[IntColumn | None, Variant]]:
        """Positions of nodes (None: all), and what has to be allocated there."""
        if work.special is None:
            yield None, self._variant(pod, work, 0)
            return
        wanted = np.zeros(len(nodes), np.int64)
        for bit, resource in enumerate(work.resources):
            if self._classes.class_of(resource) is not None:
                wanted |= (nodes.allocatable(resource) == 0).astype(np.int64) << bit
        for bits in np.unique(wanted).tolist():
            yield np.flatnonzero(wanted == bits), self._variant(pod, work, bits)

    def _variant(self, pod: Pod, work: PodClaims, bits: int) -> Variant:
        known = work.variants.get(bits)
        if known is None:
            known = work.variants[bits] = self._make_variant(pod, work, bits)
        return known

    def _make_variant(self, pod: Pod, work: PodClaims, bits: int) -> Variant:
        numbers = [number for number in work.to_allocate if number != work.special]
        claims = [work.claims[number] for number in numbers]
        variant = Variant()
        special = work.special_claim
        if bits and special is not None and work.special is not None:
            resources = [name for bit, name in enumerate(work.resources) if bits >> bit & 1]
            needs = extended.needs(special, pod.spec, resources, self._classes)
            variant.mappings = needs.mappings
            numbers.append(work.special)
            claims.append(needs.claim)
        variant.numbers, variant.claims = numbers, claims
        if claims:
            variant.question = self._questions.ask(claims)
        return variant

    # Score

    def scores(self, pod: Pod, work: PodClaims, nodes: Nodes) -> IntColumn | int:
        """How early among their alternatives the choices for the requests stand."""
        if not work.to_allocate:
            return 0
        scores = np.zeros(len(nodes), np.int64)
        for positions, variant in self._groups(pod, work, nodes):
            if variant.question is not None:
                some = nodes if positions is None else nodes.at(positions)
                variant.question.refresh(some, self._tick)
                where = slice(None) if positions is None else positions
                scores[where] = variant.question.scores(some)
        return scores + _fixed_score(work)

    # What the pod gets

    def outcome(
        self, pod: Pod, work: PodClaims, node_name: str
    ) -> tuple[Variant, dict[int, AllocationResult]] | None:
        """What each claim gets on a node, by its number; None when devices were not found there."""
        row = self._cluster.row_of(node_name)
        if row is None:
            return None
        node = Nodes(self._cluster, np.array([row], np.int64))
        _, variant = next(self._groups(pod, work, node))
        if variant.question is None:
            return variant, {}
        variant.question.refresh(node, self._tick)
        found = variant.question.solution(variant.claims, node_name)
        if found is None:
            return None
        return variant, dict(zip(variant.numbers, build_results(found, node_name), strict=True))


def _fixed_score(work: PodClaims) -> int:
    """What the claims that have devices already add on every node."""
    return sum(
        allocation_score(claim, {result.request for result in claim.status.allocation.devices.results})
        for claim in work.claims
        if claim.status.allocation is not None
    )
