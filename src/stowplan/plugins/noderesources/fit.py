"""NodeResourcesFit: a node must have room for what the pod requests; it is scored by how full it gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stowplan.cluster import IntColumn, Mask, NodeRow, Nodes
from stowplan.cluster.extended import extended_resources, may_be_device
from stowplan.cluster.nodetable import PODS
from stowplan.framework import (
    ASK_ALWAYS,
    CycleState,
    FilterPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    ScorePlugin,
    Status,
    Verdict,
    unresolvable,
    unschedulable,
)
from stowplan.framework.contract import Handle
from stowplan.framework.events import EventHint
from stowplan.objects import Pod
from stowplan.plugins.noderesources.args import NodeResourcesFitArgs
from stowplan.plugins.noderesources.hints import FitHints
from stowplan.plugins.noderesources.names import is_extended, is_scalar
from stowplan.plugins.noderesources.scoring import ScoredResources, Wanted, scored_alone
from stowplan.plugins.noderesources.strategies import strategy_of

TOO_MANY_PODS = "Too many pods"
_FILTER, _SCORE = "NodeResourcesFit/filter", "NodeResourcesFit/score"
_TOO_MANY = 1
_HOPELESS = 1 << 62
"""The bit of a code that says that removing pods would not help."""
_MOST_BITS = 60
_ALWAYS = ("cpu", "memory", "ephemeral-storage")
"""These are never ignored."""


class Need(NamedTuple):
    """An amount of a resource that must be free."""

    resource: str
    amount: int
    bit: int
    """What stands in a verdict's code for the lack of it."""
    replaceable: bool
    """Whether devices may stand in for it where the node offers none."""


class FilterNeeds:
    """What the filter asks of a node for one shape of pod."""

    __slots__ = ("_statuses", "needs")

    def __init__(self, amounts: Mapping[str, int]) -> None:
        self.needs = tuple(
            Need(name, amount, 1 << bit, may_be_device(name))
            for bit, (name, amount) in enumerate(amounts.items(), 1)
        )
        self._statuses: dict[int, Status] = {}

    def status_of(self, code: int) -> Status:
        """All that is lacking, in words."""
        status = self._statuses.get(code)
        if status is None:
            reasons = [TOO_MANY_PODS] if code & _TOO_MANY else []
            reasons += [f"Insufficient {need.resource}" for need in self.needs if code & need.bit]
            rejection = unresolvable if code & _HOPELESS else unschedulable
            status = self._statuses[code] = rejection(*reasons)
        return status


class NodeResourcesFit(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Filters by free resources and scores by a strategy."""

    Args = NodeResourcesFitArgs
    args: NodeResourcesFitArgs
    reads = Reads.NODE | Reads.USAGE

    def __init__(self, args: NodeResourcesFitArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._classes = extended_resources(handle.cluster)
        self._strategy = strategy_of(args.strategy)
        self._scored = ScoredResources(handle.cluster, args.strategy.resources, nonzero=True)

    def shape(self, pod: Pod) -> object:
        if self._scored.devices(pod.spec.scoring_request):
            return ASK_ALWAYS
        needs = tuple(self._amounts(pod.spec.request).items())
        return needs, self._scored.amounts(pod.spec.scoring_request)

    def events(self) -> Sequence[EventHint]:
        return FitHints(self._classes).events()

    # Filter

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> None:
        state[_FILTER] = FilterNeeds(self._amounts(pod.spec.request))

    def _amounts(self, request: Mapping[str, int]) -> dict[str, int]:
        """What must be free, in the order in which lacks are reported."""
        amounts = {name: request[name] for name in _ALWAYS if request.get(name, 0) > 0}
        if len(amounts) < len(request):
            others = [one for one in sorted(request.items()) if one[1] and is_scalar(one[0])]
            amounts.update(one for one in others if not self._is_ignored(one[0]))
        return amounts

    def _is_ignored(self, name: str) -> bool:
        if not is_extended(name):
            return False
        return name in self._ignored or name.partition("/")[0] in self._ignored_groups

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        needs: FilterNeeds = state[_FILTER]
        table, row = node.table, node.row
        used = table.all_usage[:, row].tolist()
        offered = table.all_allocatable[:, row].tolist()
        code = _TOO_MANY if used[PODS] >= offered[PODS] else 0
        for need in needs.needs:
            number = table.resources.find(need.resource)
            capacity = 0 if number is None else offered[number]
            if need.amount > capacity - (0 if number is None else used[number]):
                if need.replaceable and capacity <= 0 and self._classes.class_of(need.resource):
                    continue
                code |= need.bit
                if need.amount > capacity:
                    code |= _HOPELESS
        return needs.status_of(code) if code else None

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        needs: FilterNeeds = state[_FILTER]
        if len(needs.needs) > _MOST_BITS:
            return Verdict.of([self.filter_node(state, pod, node) for node in nodes])
        codes = np.zeros(len(nodes), np.int64)
        _note(codes, nodes.free("pods") <= 0, _TOO_MANY)
        for need in needs.needs:
            lacking = nodes.free(need.resource) < need.amount
            if need.replaceable and self._classes.class_of(need.resource):
                lacking &= nodes.allocatable(need.resource) > 0
            if _note(codes, lacking, need.bit):
                _note(codes, lacking & (nodes.allocatable(need.resource) < need.amount), _HOPELESS)
        return Verdict(codes, needs.status_of)

    def room_needed(self, state: CycleState, pod: Pod) -> dict[str, int] | None:
        """The amounts that must be free on a node, when that is all there is to this filter; None when
        devices may stand in for one of them."""
        needs: FilterNeeds = state[_FILTER]
        if any(need.replaceable and self._classes.class_of(need.resource) for need in needs.needs):
            return None
        return {"pods": 1} | {need.resource: need.amount for need in needs.needs}

    # Score

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> None:
        state[_SCORE] = self._scored.wanted(pod.spec.scoring_request)

    def score_node(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
        wanted = self._wanted(state, pod)
        if wanted.devices:
            return scored_alone(self, state, pod, node)
        table, row, one = node.table, node.row, self._strategy.one
        used = table.all_usage[:, row].tolist()
        offered = table.all_allocatable[:, row].tolist()
        return self._strategy.together(
            [
                (one(used[use] + amount, offered[offer]), weight)
                for (use, offer, weight), amount in wanted.items
                if offered[offer]
            ]
        )

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntColumn | int:
        wanted = self._wanted(state, pod)
        if not wanted.amounts:
            return 0
        requested, offered = self._scored.load(wanted, nodes)
        scores = self._strategy.many(requested, offered)
        return self._strategy.all_together(scores, wanted.stack.weights, offered.missing)

    def _wanted(self, state: CycleState, pod: Pod) -> Wanted:
        wanted: Wanted | None = state.get(_SCORE)
        return self._scored.wanted(pod.spec.scoring_request) if wanted is None else wanted


def _note(codes: IntColumn, lacking: Mask, bit: int) -> bool:
    """Sets the bit where something is lacking; whether that is anywhere."""
    if not np.count_nonzero(lacking):
        return False
    codes[lacking] |= bit
    return True
