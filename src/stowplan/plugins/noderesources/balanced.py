"""NodeResourcesBalancedAllocation: prefers nodes where the pod evens out how full the resources are.

A node with all memory in use and idle cores is of little use to anybody. The score compares the spread of
the utilizations with the pod to the spread without it: 75 when the pod changes nothing, more when it
makes the node more even.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import TypeVar

import numpy as np

from stowplan.cluster import IntColumn, Mask, NodeRow, Nodes
from stowplan.framework import ASK_ALWAYS, SKIP, CycleState, PreScorePlugin, Reads, ScorePlugin, Status
from stowplan.framework.contract import MAX_SCORE, Handle
from stowplan.objects import Pod
from stowplan.plugins.noderesources.args import NodeResourcesBalancedAllocationArgs, weighted
from stowplan.plugins.noderesources.columns import FloatColumn, KeptColumn, Load, ResourceStack
from stowplan.plugins.noderesources.scoring import ScoredResources, Wanted, scored_alone

IntT = TypeVar("IntT", int, IntColumn)

_SCORE = "NodeResourcesBalancedAllocation/score"


class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin):
    """Scores nodes by what the pod does to the balance of their resources."""

    Args = NodeResourcesBalancedAllocationArgs
    args: NodeResourcesBalancedAllocationArgs
    reads = Reads.NODE | Reads.USAGE

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._scored = ScoredResources(handle.cluster, weighted(args.resources), nonzero=False)
        self._before: dict[ResourceStack, KeptColumn] = {}
        """The balance of all nodes without the pod, for each choice of resources."""

    def concerns(self, pod: Pod) -> bool:
        return any(self._scored.amounts(pod.spec.request))

    def shape(self, pod: Pod) -> object:
        if self._scored.devices(pod.spec.request):
            return ASK_ALWAYS
        return self._scored.amounts(pod.spec.request)

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Pods that request nothing balance nothing; scoring them would send them all to one node."""
        if not any(self._scored.amounts(pod.spec.request)):
            return SKIP
        state[_SCORE] = self._scored.wanted(pod.spec.request)
        return None

    def score_node(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
        wanted = self._wanted(state, pod)
        if wanted.devices:
            return scored_alone(self, state, pod, node)
        before, after = _fractions(node, wanted)
        return _improvement(_balance(after), _balance(before))

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntColumn | int:
        wanted = self._wanted(state, pod)
        after = _balances(self._scored.load(wanted, nodes))
        if wanted.devices:
            return _improvement(after, _balances(self._scored.load(wanted, nodes, with_pod=False)))
        return _improvement(after, self._balance_before(wanted).of(nodes))

    def _balance_before(self, wanted: Wanted) -> KeptColumn:
        before = self._before.get(wanted.stack)
        if before is None:
            before = self._before[wanted.stack] = KeptColumn(
                self.handle.cluster,
                lambda node: _balance(_fractions(node, wanted)[0]),
                lambda nodes: _balances(self._scored.load(wanted, nodes, with_pod=False)),
            )
        return before

    def _wanted(self, state: CycleState, pod: Pod) -> Wanted:
        wanted: Wanted | None = state.get(_SCORE)
        return self._scored.wanted(pod.spec.request) if wanted is None else wanted


def _improvement(after: IntT, before: IntT) -> IntT:
    """The score; `after` is overwritten."""
    after -= before
    after += 3 * MAX_SCORE // 2
    after >>= 1
    return after


def _fractions(node: NodeRow, wanted: Wanted) -> tuple[list[float], list[float]]:
    """How full the resources of one node are, without the pod and with it."""
    used = node.table.all_usage[:, node.row].tolist()
    offered = node.table.all_allocatable[:, node.row].tolist()
    before, after = [], []
    for (use, offer, _), amount in wanted.items:
        capacity = float(offered[offer])
        if capacity:
            without, with_pod = used[use] / capacity, (used[use] + amount) / capacity
            before.append(min(1.0, without))
            after.append(min(1.0, with_pod))
    return before, after


def _balance(fractions: Sequence[float]) -> int:
    """100 when all resources of a node are equally full, 50 when they are as uneven as can be."""
    return int((1 - _spread(fractions)) * MAX_SCORE)


def _spread(fractions: Sequence[float]) -> float:
    """The standard deviation."""
    count = len(fractions)
    if count == 2:
        return abs(fractions[0] - fractions[1]) / 2
    if count < 2:
        return 0.0
    mean = sum(fractions) / count
    return sqrt(sum([(fraction - mean) * (fraction - mean) for fraction in fractions]) / count)


def _balances(load: Load) -> IntColumn:
    """`_balance` of many nodes at once; a resource that a node does not offer is left out there."""
    requested, offered = load
    fractions = np.divide(requested, offered.divisor, out=requested if offered.exact else None)
    if offered.missing is not None:
        evenness = 1.0 - _spreads_with_gaps(fractions, offered.missing)
    elif len(fractions) == 2:
        evenness = np.subtract(*fractions)
        np.abs(evenness, out=evenness)
        evenness *= 0.5
        np.subtract(1.0, evenness, out=evenness)
    else:
        evenness = 1.0 - _spreads(fractions, np.ones_like(fractions))
    evenness *= MAX_SCORE
    return evenness.astype(np.int64)


def _spreads_with_gaps(fractions: FloatColumn, missing: Mask) -> FloatColumn:
    """Nodes that offer two of the resources are reckoned as if these were all."""
    present = np.where(missing, 0.0, 1.0)
    lowest = np.where(missing, 1.0, fractions).min(axis=0)
    highest = (fractions * present).max(axis=0)
    pairs = present.sum(axis=0) == 2
    return np.where(pairs, (highest - lowest) / 2, _spreads(fractions, present))


def _spreads(fractions: FloatColumn, present: FloatColumn) -> FloatColumn:
    """Standard deviations, summed in the order of the resources: the last bit may decide a score."""
    count = np.maximum(present.sum(axis=0), 1.0)
    total, squares = np.zeros(fractions.shape[1]), np.zeros(fractions.shape[1])
    for fraction, counts in zip(fractions, present, strict=True):
        total += fraction * counts
    mean = total / count
    for fraction, counts in zip(fractions, present, strict=True):
        squares += (fraction - mean) * (fraction - mean) * counts
    spread: FloatColumn = np.sqrt(squares / count)
    return spread
