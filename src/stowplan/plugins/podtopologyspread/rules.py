"""Spread constraints in the form in which they are asked: compiled once per shape of pod."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from stowplan.cluster import Cluster, IntColumn, Mask
from stowplan.cluster.domains import Domains
from stowplan.cluster.matching import SelectedPods
from stowplan.cluster.selection import required_mask
from stowplan.objects import (
    Labels,
    PodSpec,
    Selector,
    Taint,
    TopologySpreadConstraint,
    compile_selector,
    find_untolerated,
)

HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"
_SHAPES = 4096


@dataclass(frozen=True, slots=True)
class Rule:
    """One constraint of one shape of pod."""

    topology_key: str
    max_skew: int
    min_domains: int
    selector: Selector
    own: int
    """1 if the pod itself is one of those that are spread."""
    counted: SelectedPods | None
    """The pods that are counted; None when a selector that selects everything, or nothing, counts none."""
    honors_affinity: bool
    honors_taints: bool

    def row_counts(self, cluster: Cluster) -> IntColumn:
        """How many pods count on each row; terminating ones do not."""
        if self.counted is None:
            return np.zeros(cluster.table.size, np.int64)
        return cluster.counters.counter(self.counted, terminating_too=False).column(cluster.table.size)

    def domain_counts(self, cluster: Cluster, domains: Domains) -> IntColumn:
        """How many pods count in each domain: a copy."""
        if self.counted is None:
            return np.zeros(domains.missing + 1, np.int64)
        return cluster.counters.counter(self.counted, terminating_too=False).by_domain(domains)


@lru_cache(_SHAPES)
def own_rules(spec: PodSpec, namespace: str, labels: Labels, action: str) -> tuple[Rule, ...]:
    """The rules of pods that state their constraints themselves."""
    return tuple(
        _rule(constraint, _selector_of(constraint, labels), namespace, labels)
        for constraint in spec.topology_spread_constraints
        if constraint.when_unsatisfiable == action
    )


def default_rules(
    constraints: Iterable[TopologySpreadConstraint],
    selector: Selector,
    namespace: str,
    labels: Labels,
    action: str,
) -> tuple[Rule, ...]:
    """The rules of pods that are spread by default, with the selector found for them."""
    return tuple(
        _rule(constraint, selector, namespace, labels)
        for constraint in constraints
        if constraint.when_unsatisfiable == action
    )


def _selector_of(constraint: TopologySpreadConstraint, labels: Labels) -> Selector:
    """The constraint's selector, narrowed to pods with the same value of every match label key."""
    same = {key: labels[key] for key in constraint.match_label_keys if key in labels}
    return compile_selector(constraint.label_selector).also(same)


def _rule(constraint: TopologySpreadConstraint, selector: Selector, namespace: str, labels: Labels) -> Rule:
    counts_none = selector.empty or selector.selects_nothing
    return Rule(
        topology_key=constraint.topology_key,
        max_skew=constraint.max_skew,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        selector=selector,
        own=int(selector.matches(labels)),
        counted=None if counts_none else SelectedPods(frozenset((namespace,)), selector),
        honors_affinity=(constraint.node_affinity_policy or "Honor") == "Honor",
        honors_taints=constraint.node_taints_policy == "Honor",
    )


def domains_for(
    cluster: Cluster, rules: tuple[Rule, ...], spec: PodSpec, *, every_key: bool = True
) -> list[Domains]:
    """For each rule the domains of its key. With `every_key` only nodes with the keys of all rules
    count; without, nodes that lack a key are a domain of their own."""
    keys = tuple(dict.fromkeys(rule.topology_key for rule in rules))
    needed = keys if every_key and len(keys) > 1 else ()
    found = []
    for rule in rules:
        choice, counted = _inclusion(cluster, rule, spec, needed)
        found.append(cluster.domains.get(rule.topology_key, choice, counted, blank=not every_key))
    return found


def _inclusion(
    cluster: Cluster, rule: Rule, spec: PodSpec, needed: tuple[str, ...]
) -> tuple[Hashable, Callable[[], Mask] | None]:
    """Which nodes count for a rule, and what that depends on; None when all do."""
    affinity = spec.required_node_affinity if rule.honors_affinity else None
    if affinity is not None and affinity.terms is None and affinity.selector.empty:
        affinity = None
    tolerations = spec.tolerations if rule.honors_taints else None
    if affinity is None and tolerations is None and not needed:
        return None, None

    def counted() -> Mask:
        nodes = cluster.nodes
        allowed = required_mask(nodes, spec) if affinity is not None else None
        mask = np.ones(len(nodes), np.bool_) if allowed is None else allowed
        for key in needed:
            mask &= nodes.label_ids(key) >= 0
        if tolerations is not None:

            def repels(taints: tuple[Taint, ...]) -> int:
                return int(find_untolerated(taints, tolerations) is not None)

            mask &= nodes.taints(repels) == 0
        return mask

    return (affinity, tolerations, needed), counted
