"""Preferred terms: of the pod that is to be placed, and of pods that are placed already."""

from __future__ import annotations

import numpy as np

from stowplan.cluster import Cluster, IntColumn, Nodes
from stowplan.cluster.domains import Domains, RowCounts
from stowplan.cluster.terms import TermView
from stowplan.framework.contract import MAX_SCORE
from stowplan.plugins.interpodaffinity.wishes import Wish


class PreferredState:
    """What PreScore found: for each topology key how well its domains are liked."""

    __slots__ = ("_cluster", "_liked")

    def __init__(
        self, cluster: Cluster, preferred: tuple[Wish, ...], view: TermView, required_weight: int
    ) -> None:
        """`required_weight` is what required affinity of placed pods that speaks of this pod counts for."""
        self._cluster = cluster
        self._liked: dict[str, tuple[Domains, IntColumn]] = {}
        for wish in preferred:
            counter = cluster.counters.counter(wish.pods)
            self._like(wish.topology_key, counter, counter, wish.weight)
        if required_weight:
            for key, counts in view.required.items():
                self._like(key, counts, counts, required_weight)
        for key, carriers in view.carriers.items():
            self._like(key, view.preferred[key], carriers, 1)

    def _like(self, key: str, counts: RowCounts, carriers: RowCounts, weight: int) -> None:
        """Adds what counts say about a key, if there is anybody who says it: terms that cancel each
        other out do speak."""
        if not carriers.total:
            return
        domains = self._cluster.domains.get(key)
        if domains.labelled is None or carriers.by_domain(domains).any():
            likes = counts.by_domain(domains, weight)
            known = self._liked.get(key)
            self._liked[key] = (domains, likes if known is None else likes + known[1])

    @property
    def pointless(self) -> bool:
        """Whether nobody has said anything about any domain."""
        return not self._liked

    def scores(self, nodes: Nodes) -> IntColumn:
        found = [likes.take(domains.lookup[nodes.rows]) for domains, likes in self._liked.values()]
        return found[0] if len(found) == 1 else np.sum(found, axis=0)


def normalized(scores: IntColumn) -> IntColumn:
    """The lowest becomes 0, the highest 100."""
    if not len(scores):
        return scores
    lowest, highest = int(scores.min()), int(scores.max())
    if lowest == highest:
        return np.zeros(len(scores), np.int64)
    if highest - lowest >= len(scores):
        return _scaled(scores - lowest, highest - lowest)
    # Division is slow, and there are few different scores: divide once for each.
    return _scaled(np.arange(highest - lowest + 1), highest - lowest).take(scores - lowest)


def _scaled(above: IntColumn, most: int) -> IntColumn:
    """In this order upstream computes it, in floats, and cuts off what is behind the point."""
    return (MAX_SCORE * (above / most)).astype(np.int64)
