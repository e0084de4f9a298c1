"""Soft constraints: the fewer pods of its kind there are in a node's domains, the better for the pod."""

from __future__ import annotations

from functools import reduce
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan.cluster import Cluster, IntColumn, Mask, Nodes
from stowplan.cluster.domains import Domains
from stowplan.framework.contract import MAX_SCORE
from stowplan.objects import Pod
from stowplan.plugins.podtopologyspread.args import HOSTNAME
from stowplan.plugins.podtopologyspread.rules import Rule, domains_for

Floats = NDArray[np.float64]


class Part(NamedTuple):
    """What one rule adds to the score of nodes, by domain; a host is counted by itself, not as a domain
    that some other node might be in, too."""

    rule: Rule
    domains: Domains
    weight: float
    by_domain: Floats | None

    def scores(self, cluster: Cluster, nodes: Nodes) -> Floats:
        if self.by_domain is None:
            scores = self.worth(self.rule.row_counts(cluster)[nodes.rows])
        else:
            scores = self.by_domain.take(self.domains.lookup[nodes.rows])
        labelled = self.domains.labelled
        return scores if labelled is None else np.where(labelled[nodes.rows], scores, 0.0)

    def worth(self, counts: IntColumn) -> Floats:
        worth = np.multiply(counts, self.weight, dtype=np.float64)
        worth += self.rule.max_skew - 1
        return worth


class SoftState:
    """What PreScore found."""

    __slots__ = ("_cluster", "_every_key", "_ignored", "_nodes", "parts")

    def __init__(
        self, cluster: Cluster, rules: tuple[Rule, ...], pod: Pod, nodes: Nodes, every_key: bool
    ) -> None:
        self._cluster = cluster
        all_domains = domains_for(cluster, rules, pod.spec, every_key=every_key)
        self._every_key = every_key
        self._nodes = nodes
        self._ignored = _lacking(all_domains, nodes) if every_key else None
        self.parts: list[Part] = []
        for rule, domains in zip(rules, all_domains, strict=True):
            on_hosts = rule.topology_key == HOSTNAME
            size = self._remaining(nodes) if on_hosts else self._different(domains, nodes)
            part = Part(rule, domains, log(size + 2), None)
            if not on_hosts:
                part = part._replace(by_domain=part.worth(rule.domain_counts(cluster, domains)))
            self.parts.append(part)

    def _remaining(self, nodes: Nodes) -> int:
        """How many nodes are not ignored."""
        return len(nodes) - (0 if self._ignored is None else int(np.count_nonzero(self._ignored)))

    def _different(self, domains: Domains, nodes: Nodes) -> int:
        """In how many domains the nodes are."""
        lookup = domains.lookup[nodes.rows]
        if self._ignored is not None:
            lookup = lookup[~self._ignored]
        return int(np.count_nonzero(np.bincount(lookup)))

    def ignored(self, nodes: Nodes) -> Mask | None:
        """The nodes that lack a key which all must have; None when none does."""
        if nodes is self._nodes or not self._every_key:
            return self._ignored
        return _lacking([part.domains for part in self.parts], nodes)

    def scores(self, nodes: Nodes) -> IntColumn:
        # In the order of the rules, as upstream adds them up.
        total = reduce(np.add, (part.scores(self._cluster, nodes) for part in self.parts))
        # Go rounds halves away from zero; for positive numbers that is this.
        scores: IntColumn = np.floor(total + 0.5).astype(np.int64)
        ignored = self.ignored(nodes)
        if ignored is not None:
            scores[ignored] = 0
        return scores

    def normalized(self, scores: IntColumn, nodes: Nodes) -> IntColumn:
        """Turned round, so that the lowest score becomes the highest; ignored nodes get nothing."""
        ignored = self.ignored(nodes)
        if ignored is None:
            return _reversed(scores)
        result = np.zeros(len(scores), np.int64)
        result[~ignored] = _reversed(scores[~ignored])
        return result


def _reversed(scores: IntColumn) -> IntColumn:
    if not len(scores):
        return scores
    lowest, highest = int(scores.min()), int(scores.max())
    if highest <= 0:
        return np.full(len(scores), MAX_SCORE, np.int64)
    if highest - lowest >= len(scores):
        return MAX_SCORE * (highest + lowest - scores) // highest
    # Division is slow, and there are few different scores: divide once for each.
    different = np.arange(highest, lowest - 1, -1)
    return (MAX_SCORE * different // highest).take(scores - lowest)


def _lacking(all_domains: list[Domains], nodes: Nodes) -> Mask | None:
    """The nodes that lack the label of any of the domains; None when none does."""
    lacking: Mask | None = None
    for domains in all_domains:
        if domains.labelled is not None:
            lacks = ~domains.labelled[nodes.rows]
            lacking = lacks if lacking is None else lacking | lacks
    return lacking if lacking is not None and lacking.any() else None
