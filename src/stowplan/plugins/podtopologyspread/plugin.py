"""PodTopologySpread: pods are spread evenly over zones, hosts or whatever nodes are divided into.

Hard constraints filter: a domain may be ahead of the emptiest one by `maxSkew` pods at most. Soft ones
score: domains with fewer pods are better. Pods without constraints of their own get default ones, if it
is known what they belong to.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from stowplan.cluster import IntColumn, NodeRow, Nodes
from stowplan.framework import (
    SKIP,
    Code,
    CycleState,
    FilterPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    ScorePlugin,
    Status,
    Verdict,
)
from stowplan.framework.contract import Handle
from stowplan.framework.events import EventHint
from stowplan.objects import Labels, Pod, Selector, SelectorError
from stowplan.plugins.podtopologyspread.args import SYSTEM_DEFAULTS, PodTopologySpreadArgs
from stowplan.plugins.podtopologyspread.defaults import DefaultSelectors
from stowplan.plugins.podtopologyspread.filtering import HardState
from stowplan.plugins.podtopologyspread.hints import SpreadHints
from stowplan.plugins.podtopologyspread.rules import HARD, SOFT, Rule, default_rules, own_rules
from stowplan.plugins.podtopologyspread.scoring import SoftState

_FILTERING = "PodTopologySpread filtering"
_SCORING = "PodTopologySpread scoring"


class PodTopologySpread(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Keeps pods of one kind evenly spread over the domains of a topology key."""

    Args = PodTopologySpreadArgs
    reads = Reads.CLUSTER
    shaped_by_template = True

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._by_system = args.defaulting_type == "System"
        self._defaults = SYSTEM_DEFAULTS if self._by_system else args.default_constraints
        self._default_actions = {constraint.when_unsatisfiable for constraint in self._defaults}
        self._selectors = DefaultSelectors(handle.cluster)
        self._default_rules = lru_cache(4096)(self._compile_defaults)

    def concerns(self, pod: Pod) -> bool:
        return bool(pod.spec.topology_spread_constraints or self._defaults)

    def events(self) -> Sequence[EventHint]:
        return SpreadHints(lambda pod: self._rules(pod, HARD)).events()

    # Filtering

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        try:
            rules = self._rules(pod, HARD)
        except SelectorError as error:
            text = f"get constraints from pod: obtaining pod's hard topology spread constraints: {error}"
            return Status(Code.ERROR, (text,))
        if not rules:
            return SKIP
        state[_FILTERING] = HardState.of(self.handle.cluster, rules, pod)
        return None

    def add_pod(self, state: CycleState, pod: Pod, other: Pod, node: NodeRow) -> None:
        _hard(state).update(pod, other, node.row, 1)

    def remove_pod(self, state: CycleState, pod: Pod, other: Pod, node: NodeRow) -> None:
        _hard(state).update(pod, other, node.row, -1)

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        return _hard(state).verdict(nodes)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        return _hard(state).status(node)

    # Scoring

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        try:
            rules = self._rules(pod, SOFT)
        except SelectorError as error:
            text = f"obtaining pod's soft topology spread constraints: {error}"
            return Status(Code.ERROR, (f"calculating preScoreState: {text}",))
        if not rules:
            return SKIP
        every_key = bool(pod.spec.topology_spread_constraints) or not self._by_system
        state[_SCORING] = SoftState(self.handle.cluster, rules, pod, nodes, every_key)
        return None

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntColumn:
        return _soft(state).scores(nodes)

    def normalize(self, state: CycleState, pod: Pod, scores: IntColumn, nodes: Nodes) -> IntColumn:
        return _soft(state).normalized(scores, nodes)

    # Rules

    def _rules(self, pod: Pod, action: str) -> tuple[Rule, ...]:
        if pod.spec.topology_spread_constraints:
            return own_rules(pod.spec, pod.namespace, pod.labels, action)
        if action not in self._default_actions:
            return ()
        selector = self._selectors.selector_for(pod)
        return () if selector.empty else self._default_rules(selector, pod.namespace, pod.labels, action)

    def _compile_defaults(
        self, selector: Selector, namespace: str, labels: Labels, action: str
    ) -> tuple[Rule, ...]:
        return default_rules(self._defaults, selector, namespace, labels, action)


def _hard(state: CycleState) -> HardState:
    found: Any = state[_FILTERING]
    assert isinstance(found, HardState)
    return found


def _soft(state: CycleState) -> SoftState:
    found: Any = state[_SCORING]
    assert isinstance(found, SoftState)
    return found
