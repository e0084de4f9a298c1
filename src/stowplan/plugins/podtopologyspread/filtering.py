"""Hard constraints: a node may take the pod only if its domains do not get too far ahead of others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stowplan.cluster import Cluster, IntColumn, NodeRow, Nodes
from stowplan.cluster.domains import DomainCounts
from stowplan.framework import Status, Verdict, unresolvable, unschedulable
from stowplan.objects import Pod
from stowplan.plugins.podtopologyspread.rules import Rule, domains_for

UNEVEN = unschedulable("node(s) didn't match pod topology spread constraints")
NO_LABEL = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")
_STATUSES = (None, UNEVEN, NO_LABEL)
_UNEVEN, _NO_LABEL = 1, 2
_NO_DOMAIN = 2**31 - 1
"""What upstream takes for the lowest count where there is no domain and none is demanded."""


class Spread(NamedTuple):
    """A rule and the pods counted for it, by domain."""

    rule: Rule
    counts: DomainCounts

    @property
    def limit(self) -> int:
        """The highest count of a domain that may still take the pod."""
        rule, counts = self.rule, self.counts
        lowest = counts.lowest()
        if len(counts.domains.present) < rule.min_domains:
            lowest = 0
        elif lowest is None:
            lowest = _NO_DOMAIN
        return rule.max_skew - rule.own + lowest

    def codes(self, nodes: Nodes) -> IntColumn:
        domains = self.counts.domains
        by_domain = (self.counts.values() > self.limit).astype(np.int64)
        by_domain[domains.missing] = _NO_LABEL
        return by_domain.take(domains.lookup[nodes.rows])


class HardState:
    """What PreFilter found, and trials change."""

    __slots__ = ("spreads",)

    def __init__(self, spreads: list[Spread]) -> None:
        self.spreads = spreads

    @classmethod
    def of(cls, cluster: Cluster, rules: tuple[Rule, ...], pod: Pod) -> HardState:
        return cls(
            [
                Spread(rule, DomainCounts(domains, rule.domain_counts(cluster, domains)))
                for rule, domains in zip(rules, domains_for(cluster, rules, pod.spec), strict=True)
            ]
        )

    def clone(self) -> HardState:
        return HardState([Spread(rule, counts.clone()) for rule, counts in self.spreads])

    def update(self, pod: Pod, other: Pod, row: int, amount: int) -> None:
        """Another pod came to a row (amount 1) or left it. As upstream has it, terminating pods and those
        of a selector that selects everything count here, although they do not in PreFilter."""
        if other.namespace == pod.namespace:
            for rule, counts in self.spreads:
                if rule.selector.matches(other.labels):
                    counts.add(row, amount)

    def verdict(self, nodes: Nodes) -> Verdict:
        codes = self.spreads[0].codes(nodes)
        for spread in self.spreads[1:]:
            codes = np.where(codes, codes, spread.codes(nodes))
        return Verdict(codes, _status_of)

    def status(self, node: NodeRow) -> Status | None:
        for spread in self.spreads:
            counts = spread.counts
            domain = counts.domains.lookup.item(node.row)
            if domain == counts.domains.missing:
                return NO_LABEL
            if counts.at(domain) > spread.limit:
                return UNEVEN
        return None


def _status_of(code: int) -> Status:
    status = _STATUSES[code]
    assert status is not None
    return status
