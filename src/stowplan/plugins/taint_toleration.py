"""TaintToleration: nodes keep away pods that do not tolerate their taints.

A taint with effect NoSchedule or NoExecute keeps an intolerant pod off its node; each intolerable
PreferNoSchedule taint makes the node less liked. What follows depends on a node's list of taints only,
and clusters have few different lists, so each list is judged once.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.cluster import IntColumn, NodeRow, Nodes
from stowplan.framework import CycleState, FilterPlugin, Reads, ScorePlugin, Status, Verdict, unresolvable
from stowplan.framework.events import Action, EventHint, Resource
from stowplan.framework.normalizing import default_normalize
from stowplan.objects import Node, Pod, Taint, Toleration, find_untolerated, tolerates
from stowplan.plugins.waking import is_same

UNTOLERATED = unresolvable("node(s) had untolerated taint(s)")
_PREFER_NO_SCHEDULE = "PreferNoSchedule"


class TaintToleration(FilterPlugin, ScorePlugin):
    """Rejects nodes with a hard taint the pod does not tolerate, and prefers those with fewer soft ones."""

    reads = Reads.NODE
    shaped_by_template = True

    def shape(self, pod: Pod) -> tuple[Toleration, ...]:
        return pod.spec.tolerations

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        taints = node.node.spec.taints
        return UNTOLERATED if taints and _keeps_away(taints, pod.spec.tolerations) else None

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        tolerations = pod.spec.tolerations
        return Verdict(nodes.taints(lambda taints: _keeps_away(taints, tolerations)), lambda _: UNTOLERATED)

    def score_node(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
        taints = node.node.spec.taints
        return _disliked(taints, pod.spec.tolerations) if taints else 0

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntColumn:
        tolerations = pod.spec.tolerations
        return nodes.taints(lambda taints: _disliked(taints, tolerations))

    def normalize(self, state: CycleState, pod: Pod, scores: IntColumn, nodes: Nodes) -> IntColumn:
        return default_normalize(scores, reverse=True)

    def events(self) -> Sequence[EventHint]:
        return (
            EventHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT, _lets_in_now, by_shape=True),
            EventHint(Resource.POD, Action.UPDATE_POD_TOLERATION, _tolerates_more, by_shape=True),
        )


def _lets_in_now(pod: Pod, old: Node | None, new: Node) -> bool:
    tolerations = pod.spec.tolerations
    kept_away = old is None or _keeps_away(old.spec.taints, tolerations)
    return kept_away and not _keeps_away(new.spec.taints, tolerations)


def _tolerates_more(pod: Pod, old: Pod | None, new: Pod) -> bool:
    return is_same(pod, new)


def _keeps_away(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> bool:
    return find_untolerated(taints, tolerations) is not None


def _disliked(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> int:
    """How many soft taints the pod does not tolerate."""
    return sum(
        not any(tolerates(toleration, taint) for toleration in tolerations)
        for taint in taints
        if taint.effect == _PREFER_NO_SCHEDULE
    )
