"""NodeAffinity: pods choose nodes by label and name, through `nodeSelector` and node affinity.

The scheduler's administrator may add an affinity of his own to every pod. Conditions are judged once per
distinct value of a label, over columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stowplan.cluster import IntColumn, NodeRow, Nodes
from stowplan.cluster.selection import NAME_FIELD, any_term_mask, required_mask, term_mask
from stowplan.framework import (
    SKIP,
    CycleState,
    FilterPlugin,
    Narrow,
    PluginArgs,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    ScorePlugin,
    Status,
    Verdict,
    unresolvable,
)
from stowplan.framework.contract import Handle
from stowplan.framework.events import Action, EventHint, Resource
from stowplan.framework.normalizing import default_normalize
from stowplan.objects import (
    Node,
    NodeSelectorTerm,
    NodeTerm,
    Pod,
    SelectorError,
    any_term_matches,
    compile_node_selector,
    compile_preferred_terms,
)
from stowplan.objects import (
    NodeAffinity as Affinity,
)

NOT_MATCHED = unresolvable("node(s) didn't match Pod's node affinity/selector")
NOT_ENFORCED = unresolvable("node(s) didn't match scheduler-enforced node affinity")
CONFLICT = unresolvable("pod affinity terms conflict")

_PREFERRED = "NodeAffinity/preferred"
_ADDED = "addedAffinity"
_REQUIRED_FIELD = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED_FIELD = "preferredDuringSchedulingIgnoredDuringExecution"

Preferred = tuple[tuple[int, NodeTerm], ...]


class NodeAffinityArgs(PluginArgs, frozen=True):
    """An affinity that every pod of the profile has beside its own."""

    added_affinity: Affinity | None = None

    def problems(self) -> list[tuple[str, str]]:
        added = self.added_affinity
        if added is None:
            return []
        found = []
        if added.required is not None:
            terms = compile_node_selector(added.required)
            path = f"{_ADDED}.{_REQUIRED_FIELD}"
            found += [(path, problem) for term in terms for problem in term.problems]
        try:
            compile_preferred_terms(added.preferred)
        except SelectorError as problem:
            found.append((f"{_ADDED}.{_PREFERRED_FIELD}", str(problem)))
        return found


class NodeAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Filters by what is required, scores by what is preferred."""

    Args = NodeAffinityArgs
    reads = Reads.NODE
    shaped_by_template = True

    def __init__(self, args: NodeAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        added = args.added_affinity or Affinity()
        self._added_required = None if added.required is None else compile_node_selector(added.required)
        self._added_preferred = compile_preferred_terms(added.preferred)
        self._adds_preferred = bool(added.preferred)
        """Terms that say nothing are scored too: 0 for every node."""

    def concerns(self, pod: Pod) -> bool:
        spec = pod.spec
        adds = self._added_required is not None or self._adds_preferred
        return adds or bool(spec.node_selector) or _affinity(pod) is not None

    def shape(self, pod: Pod) -> tuple[object, ...]:
        selector = pod.spec.node_selector
        return tuple(sorted(selector.items())) if selector else (), _affinity(pod)

    # Filter

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | Narrow | None:
        affinity = _affinity(pod)
        required = affinity.required if affinity is not None else None
        if required is None:
            idle = self._added_required is None and not pod.spec.node_selector
            return SKIP if idle else None
        names = _named_nodes(required.node_selector_terms)
        if names is None:
            return None
        return Narrow(names) if names else CONFLICT

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        labels, name = node.labels, node.name
        if self._added_required is not None and not any_term_matches(self._added_required, labels, name):
            return NOT_ENFORCED
        return None if pod.spec.required_node_affinity.matches(labels, name) else NOT_MATCHED

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        matched = required_mask(nodes, pod.spec)
        if self._added_required is None:
            return Verdict.passes(len(nodes)) if matched is None else Verdict.rejects(~matched, NOT_MATCHED)
        enforced = any_term_mask(nodes, self._added_required)
        if matched is None:
            return Verdict.rejects(~enforced, NOT_ENFORCED)
        return Verdict.first_of((~enforced, NOT_ENFORCED), (~matched, NOT_MATCHED))

    # Score

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        preferred = state[_PREFERRED] = self._preferred(pod)
        affinity = _affinity(pod)
        asked = self._adds_preferred or (affinity is not None and bool(affinity.preferred))
        return None if asked or preferred else SKIP

    def _preferred(self, pod: Pod) -> Preferred:
        """The weights and terms of added preferences and the pod's own."""
        affinity = _affinity(pod)
        own = compile_preferred_terms(affinity.preferred) if affinity is not None else ()
        return self._added_preferred + own

    def score_node(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
        labels, name = node.labels, node.name
        return sum(weight for weight, term in self._preferences(state, pod) if term.matches(labels, name))

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntColumn | int:
        scores = np.zeros(len(nodes), np.int64)
        for weight, term in self._preferences(state, pod):
            scores += term_mask(nodes, term) * np.int64(weight)
        return scores

    def _preferences(self, state: CycleState, pod: Pod) -> Preferred:
        preferred: Preferred | None = state.get(_PREFERRED)
        return self._preferred(pod) if preferred is None else preferred

    def normalize(self, state: CycleState, pod: Pod, scores: IntColumn, nodes: Nodes) -> IntColumn:
        return default_normalize(scores)

    def events(self) -> Sequence[EventHint]:
        hint = self._matches_now
        return (EventHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, hint, by_shape=True),)

    def _matches_now(self, pod: Pod, old: Node | None, new: Node) -> bool:
        added = self._added_required
        if added is not None and not any_term_matches(added, new.labels, new.name):
            return False
        wanted = pod.spec.required_node_affinity
        return wanted.matches(new.labels, new.name) and (
            old is None or not wanted.matches(old.labels, old.name)
        )


def _affinity(pod: Pod) -> Affinity | None:
    affinity = pod.spec.affinity
    return affinity.node_affinity if affinity is not None else None


def _named_nodes(terms: tuple[NodeSelectorTerm, ...]) -> frozenset[str] | None:
    """The only nodes that can match, by name; None when some term (or there is none) does not name any."""
    if not terms:
        return None
    names: set[str] = set()
    for term in terms:
        named = [
            frozenset(field.values)
            for field in term.match_fields
            if field.key == NAME_FIELD and field.operator == "In"
        ]
        if not named:
            return None
        names |= frozenset.intersection(*named)
    return frozenset(names)
