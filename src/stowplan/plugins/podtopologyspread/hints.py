"""What may make room for a pod in some domain: pods that are counted come and go, and so do domains."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stowplan.framework.events import Action, EventHint, Resource
from stowplan.objects import Labels, Node, Pod
from stowplan.plugins.podtopologyspread.rules import Rule
from stowplan.plugins.waking import is_same, takes_room


class SpreadHints:
    """The hints of PodTopologySpread; `rules` gives the hard rules of a pod."""

    def __init__(self, rules: Callable[[Pod], Sequence[Rule]]) -> None:
        self._rules = rules

    def events(self) -> Sequence[EventHint]:
        on_pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION
        on_nodes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        return (
            EventHint(Resource.POD, on_pods, self._counts_change, by_shape=True),
            EventHint(Resource.NODE, on_nodes, self._domains_change, by_shape=True),
        )

    def _counts_change(self, pod: Pod, old: Pod | None, new: Pod | None) -> bool:
        if any(other is not None and not _may_count(pod, other) for other in (old, new)):
            return False
        rules = self._rules(pod)
        if old is not None and new is not None:
            tolerates_more = is_same(pod, new) and old.spec.tolerations != new.spec.tolerations
            if tolerates_more and any(rule.honors_taints for rule in rules):
                return True
            return any(
                rule.selector.matches(old.labels) != rule.selector.matches(new.labels) for rule in rules
            )
        other = old or new
        return other is not None and any(rule.selector.matches(other.labels) for rule in rules)

    def _domains_change(self, pod: Pod, old: Node | None, new: Node | None) -> bool:
        rules = self._rules(pod)
        counted_before = old is not None and _has_keys(old.labels, rules)
        counted_now = new is not None and _has_keys(new.labels, rules)
        if old is None or new is None:
            return counted_before or counted_now
        if counted_before != counted_now:
            return True
        return counted_now and (
            old.spec.taints != new.spec.taints
            or any(old.labels.get(rule.topology_key) != new.labels.get(rule.topology_key) for rule in rules)
        )


def _may_count(pod: Pod, other: Pod) -> bool:
    return is_same(pod, other) or (takes_room(other) and other.namespace == pod.namespace)


def _has_keys(labels: Labels, rules: Sequence[Rule]) -> bool:
    return all(rule.topology_key in labels for rule in rules)
