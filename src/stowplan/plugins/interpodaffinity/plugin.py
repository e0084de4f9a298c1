"""InterPodAffinity: pods want to be near to, or far from, other pods.

Nearness is sharing a topology domain: nodes with the same value of a label. Required terms filter, both
those of the pod that is to be placed and the anti-affinity of pods that are placed already; preferred
ones score, both ways too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stowplan.cluster import IntColumn, NodeRow, Nodes
from stowplan.cluster.terms import TermView
from stowplan.framework import (
    SKIP,
    CycleState,
    FilterPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    ScorePlugin,
    Status,
    Verdict,
    unresolvable,
)
from stowplan.framework.args import PluginArgs
from stowplan.framework.contract import Handle
from stowplan.framework.events import EventHint
from stowplan.objects import NO_LABELS, Labels, Pod
from stowplan.plugins.interpodaffinity.filtering import RequiredState
from stowplan.plugins.interpodaffinity.hints import EVENTS
from stowplan.plugins.interpodaffinity.scoring import PreferredState, normalized
from stowplan.plugins.interpodaffinity.wishes import WishIndex

_FILTERING = "InterPodAffinity filtering"
_SCORING = "InterPodAffinity scoring"


class InterPodAffinityArgs(PluginArgs, frozen=True):
    """How much placed pods' own wishes count."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def problems(self) -> list[tuple[str, str]]:
        weight = self.hard_pod_affinity_weight
        if 0 <= weight <= 100:
            return []
        return [("hardPodAffinityWeight", f"{weight} is not between 0 and 100")]


class InterPodAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Puts pods near to or far from other pods, as both sides want it."""

    Args = InterPodAffinityArgs
    reads = Reads.CLUSTER
    shaped_by_template = True

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._required_weight = args.hard_pod_affinity_weight
        self._ignores_others = args.ignore_preferred_terms_of_existing_pods
        self._wishes = WishIndex(handle.cluster)

    def events(self) -> Sequence[EventHint]:
        return EVENTS

    # Filtering

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        wishes = self._wishes.of(pod)
        if wishes.problems:
            problems = ", ".join(wishes.problems)
            return unresolvable(f"parsing pod: {problems if len(wishes.problems) == 1 else f'[{problems}]'}")
        cluster = self.handle.cluster
        if not wishes.required and not len(cluster.terms):
            return SKIP
        namespace_labels = self._namespace_labels(pod)
        view = cluster.terms.view(pod.namespace, namespace_labels, pod.labels)
        if not wishes.required and not view.anti:
            return SKIP
        found = RequiredState(cluster, wishes, view, namespace_labels)
        if found.pointless:
            return SKIP
        state[_FILTERING] = found
        return None

    def add_pod(self, state: CycleState, pod: Pod, other: Pod, node: NodeRow) -> None:
        _required(state).update(pod, other, node.row, 1)

    def remove_pod(self, state: CycleState, pod: Pod, other: Pod, node: NodeRow) -> None:
        _required(state).update(pod, other, node.row, -1)

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        return _required(state).verdict(pod, nodes)

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        return _required(state).status(pod, node)

    # Scoring

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        preferred = self._wishes.of(pod).preferred
        if not preferred and (self._ignores_others or not len(self.handle.cluster.terms)):
            return SKIP
        view = self._view(pod)
        if not preferred and not view.required and not view.carriers:
            return SKIP
        found = PreferredState(self.handle.cluster, preferred, view, self._required_weight)
        if found.pointless:
            return SKIP
        state[_SCORING] = found
        return None

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntColumn:
        found: Any = state[_SCORING]
        assert isinstance(found, PreferredState)
        return found.scores(nodes)

    def normalize(self, state: CycleState, pod: Pod, scores: IntColumn, nodes: Nodes) -> IntColumn:
        return normalized(scores)

    # Placed pods' terms

    def _view(self, pod: Pod) -> TermView:
        return self.handle.cluster.terms.view(pod.namespace, self._namespace_labels(pod), pod.labels)

    def _namespace_labels(self, pod: Pod) -> Labels:
        """The labels of the pod's namespace; none if it is not known."""
        namespace = self.handle.cluster.namespaces.get(pod.namespace)
        return NO_LABELS if namespace is None else namespace.labels


def _required(state: CycleState) -> RequiredState:
    found: Any = state[_FILTERING]
    assert isinstance(found, RequiredState)
    return found
