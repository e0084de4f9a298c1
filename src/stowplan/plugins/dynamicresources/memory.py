"""Remembered searches: for pods that ask for the same, nodes are searched again only where devices
came or went.

An answer for a node depends on what is asked for, on the node's site and on which of its devices are
taken. So there is a memory per distinct question; it follows the logs of nodes and of pools, and
searches only nodes that a change concerns.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec
import numpy as np

from stowplan.cluster import Cluster, IntColumn, Mask, Nodes
from stowplan.cluster.columns import grown
from stowplan.objects import Node, ResourceClaim
from stowplan.plugins.dynamicresources.ledger import Ledger
from stowplan.plugins.dynamicresources.reach import ReachError
from stowplan.plugins.dynamicresources.requests import (
    AllocationError,
    ClaimPlan,
    NodeAllocationError,
    Solution,
    plan_claim,
)
from stowplan.plugins.dynamicresources.results import selector_problem
from stowplan.plugins.dynamicresources.search import Search
from stowplan.plugins.dynamicresources.sites import Site

FOUND, NOT_FOUND, BAD_POOLS, BROKEN = range(4)
"""What a search on a node came to."""

Tick: TypeAlias = Callable[[Node], Callable[[], None]]
_FEWEST = 4
_MOST_ANSWERS = 60_000
"""How many questions are remembered: this many answers of a node, but a few questions in any case."""
_encoder = msgspec.json.Encoder(order="deterministic")


class Question:
    """What some claims ask for, and the answer for every node so far."""

    def __init__(self, cluster: Cluster, ledger: Ledger, claims: Sequence[ResourceClaim]) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self.plans = self._plans(claims)
        self._codes: IntColumn = np.zeros(0, np.int64)
        self._scores: IntColumn = np.zeros(0, np.int64)
        self._stale: Mask = np.zeros(0, np.bool_)
        self._found: dict[str, tuple[Site, Solution | None]] = {}
        """By node, the site that was searched and what was found."""
        self._node_position = -1
        self._pool_position = -1
        self._sites_version = -1

    def _plans(self, claims: Sequence[ResourceClaim]) -> list[ClaimPlan]:
        return [plan_claim(claim, self._cluster.device_classes.get) for claim in claims]

    # Answers

    def refresh(self, nodes: Nodes, tick: Tick) -> None:
        """Searches those of the nodes about which something may have changed."""
        self._mark_stale()
        asked = nodes.row_numbers
        for row in asked[self._stale[asked]].tolist():
            node = self._cluster.table.nodes[row]
            self._codes[row] = self._search(node, tick(node))
            _, found = self._found.get(node.name, (None, None))
            self._scores[row] = 0 if found is None else found.score
            self._stale[row] = False

    def codes(self, nodes: Nodes) -> IntColumn:
        """What the search on these nodes came to; they must be refreshed."""
        return self._codes[: self._cluster.table.size][nodes.rows]

    def scores(self, nodes: Nodes) -> IntColumn:
        """How good the chosen alternatives on these nodes are."""
        return self._scores[: self._cluster.table.size][nodes.rows]

    def solution(self, claims: Sequence[ResourceClaim], node_name: str) -> Solution | None:
        """The devices found on a node, for claims that ask for the same."""
        _, found = self._found.get(node_name, (None, None))
        return None if found is None else found.moved_to(self._plans(claims))

    def failure(self, claims: Sequence[ResourceClaim], node: Node) -> Exception:
        """What is wrong where the search came to BROKEN, said of these claims."""
        try:
            found = Search(self._plans(claims), self._ledger.sites.site(node), self._ledger.state).run()
            return AllocationError(selector_problem(found) if found else "")
        except ReachError as problem:
            return AllocationError(f"gather pool information: {problem}")
        except AllocationError as problem:
            return problem

    # Searching

    def _mark_stale(self) -> None:
        """Notes which rows changed since the last time."""
        table, state, sites = self._cluster.table, self._ledger.state, self._ledger.sites
        if len(self._codes) < table.size:
            self._codes = grown(self._codes, table.capacity)
            self._scores = grown(self._scores, table.capacity)
            self._stale = grown(self._stale, table.capacity)
        changed = table.node_log.since(self._node_position) if self._node_position >= 0 else None
        touched = state.log.since(self._pool_position) if self._pool_position >= 0 else None
        if changed is None or touched is None:
            self._stale[:] = True
        else:
            self._stale[[row for row in changed if row < table.size]] = True
            for number in set(touched):
                names = sites.nodes_that_see(state.pool_of(number))
                self._stale[[table.rows[name] for name in names if name in table.rows]] = True
            if self._sites_version != sites.version:
                self._stale[[row for row, node in enumerate(table.nodes) if self._site_changed(node)]] = True
        self._node_position = table.node_log.position
        self._pool_position = state.log.position
        self._sites_version = sites.version

    def _site_changed(self, node: Node) -> bool:
        known = self._found.get(node.name)
        return known is None or self._ledger.sites.known(node.name) is not known[0]

    def _search(self, node: Node, tick: Callable[[], None]) -> int:
        self._found.pop(node.name, None)
        try:
            site = self._ledger.sites.site(node)
        except ReachError:
            return BROKEN
        self._found[node.name] = (site, None)
        try:
            found = Search(self.plans, site, self._ledger.state, tick).run()
        except NodeAllocationError:
            return BAD_POOLS
        except AllocationError:
            return BROKEN
        if found is None:
            return NOT_FOUND
        if selector_problem(found):
            return BROKEN
        self._found[node.name] = (site, found)
        return FOUND


class Questions:
    """A question per distinct content of claims; those asked longest ago are forgotten."""

    def __init__(self, cluster: Cluster, ledger: Ledger) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._known: OrderedDict[tuple[bytes, ...], Question] = OrderedDict()
        self._classes_version = -1

    def ask(self, claims: Sequence[ResourceClaim]) -> Question:
        """The question that these claims ask."""
        classes = self._cluster.device_classes
        if self._classes_version != classes.version:
            self._known.clear()
            self._classes_version = classes.version
        content = tuple(_encoder.encode(claim.spec) for claim in claims)
        question = self._known.get(content)
        if question is None:
            question = self._known[content] = Question(self._cluster, self._ledger, claims)
        self._known.move_to_end(content)
        while len(self._known) > max(_FEWEST, _MOST_ANSWERS // max(1, self._cluster.table.size)):
            self._known.popitem(last=False)
        return question
