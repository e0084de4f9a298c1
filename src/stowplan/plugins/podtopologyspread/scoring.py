"""Soft constraints: the fewer pods of its kind there are in a node's domains, the better for the pod."""

from __future__ import annotations

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
        labelled = nodes.label_ids(self.rule.topology_key) >= 0
        return scores if labelled.all() else np.where(labelled, scores, 0.0)

    def worth(self, counts: IntColumn) -> Floats:
        return counts.astype(np.float64) * self.weight + (self.rule.max_skew - 1)


class SoftState:
    """What PreScore found."""

    __slots__ = ("_cluster", "_every_key", "parts")

    def __init__(
        self, cluster: Cluster, rules: tuple[Rule, ...], pod: Pod, nodes: Nodes, every_key: bool
    ) -> None:
        self._cluster = cluster
        self._every_key = every_key
        self.parts: list[Part] = []
        all_domains = domains_for(cluster, rules, pod.spec, every_key=every_key)
        ignored = _ignored(all_domains, nodes) if every_key else None
        for rule, domains in zip(rules, all_domains, strict=True):
            on_hosts = rule.topology_key == HOSTNAME
            size = _present(ignored, nodes) if on_hosts else _different(domains, nodes, ignored)
            part = Part(rule, domains, log(size + 2), None)
            if not on_hosts:
                part = part._replace(by_domain=part.worth(rule.domain_counts(cluster, domains)))
            self.parts.append(part)

    def ignored(self, nodes: Nodes) -> Mask | None:
        """The nodes that lack a key which all must have; None when none does."""
        return _ignored([part.domains for part in self.parts], nodes) if self._every_key else None

    def scores(self, nodes: Nodes) -> IntColumn:
        total = np.zeros(len(nodes))
        for part in self.parts:
            total += part.scores(self._cluster, nodes)
        # Go rounds halves away from zero; for positive numbers that is this.
        scores = np.floor(total + 0.5).astype(np.int64)
        ignored = self.ignored(nodes)
        if ignored is not None:
            scores[ignored] = 0
        return scores

    def normalized(self, scores: IntColumn, nodes: Nodes) -> IntColumn:
        """Turned round, so that the lowest score becomes the highest; ignored nodes get nothing."""
        ignored = self.ignored(nodes)
        if ignored is not None:
            result = np.zeros(len(scores), np.int64)
            result[~ignored] = _reversed(scores[~ignored])
            return result
        return _reversed(scores)


def _reversed(scores: IntColumn) -> IntColumn:
    if not len(scores):
        return scores
    lowest, highest = int(scores.min()), int(scores.max())
    if highest <= 0:
        return np.full(len(scores), MAX_SCORE, np.int64)
    # Far below 2^53 and with quotients up to 200, a float division cannot reach the next integer.
    return (MAX_SCORE * (highest + lowest - scores) / highest).astype(np.int64)


def _ignored(all_domains: list[Domains], nodes: Nodes) -> Mask | None:
    ignored: Mask | None = None
    for domains in all_domains:
        if not domains.complete:
            lacks = domains.lookup[nodes.rows] == domains.missing
            ignored = lacks if ignored is None else ignored | lacks
    return ignored if ignored is not None and ignored.any() else None


def _present(ignored: Mask | None, nodes: Nodes) -> int:
    return len(nodes) - (0 if ignored is None else int(np.count_nonzero(ignored)))


def _different(domains: Domains, nodes: Nodes, ignored: Mask | None) -> int:
    """In how many domains the nodes are."""
    lookup = domains.lookup[nodes.rows]
    if ignored is not None:
        lookup = lookup[~ignored]
    return int(np.count_nonzero(np.bincount(lookup)))
