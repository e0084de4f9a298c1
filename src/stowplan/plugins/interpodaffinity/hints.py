"""What may bring a pod near to those it needs, or rid it of those it cannot be near to.

As upstream has it, a namespace selector is asked here about a namespace without labels, so that pods of
namespaces which only their labels bring in are overlooked; a pod that waits for those comes back with the
regular flush.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.cluster.terms import Term, terms_of
from stowplan.framework.events import Action, EventHint, Resource
from stowplan.objects import NO_LABELS, Node, Pod
from stowplan.plugins.waking import is_same, takes_room


def _all_match(terms: Sequence[Term], pod: Pod) -> bool:
    return bool(terms) and all(term.matches(pod.namespace, NO_LABELS, pod.labels) for term in terms)


def _pods_change(pod: Pod, old: Pod | None, new: Pod | None) -> bool:
    if old is not None and new is not None and is_same(pod, new):
        return True
    if any(other is not None and not takes_room(other) for other in (old, new)):
        return False
    terms = terms_of(pod.spec, pod.namespace)
    if terms.problems:
        return True
    near, far = terms.required_affinity, terms.required_anti
    if old is None:
        return new is not None and _all_match(near, new)
    if new is None:
        return _all_match(far, old) or _all_match(terms_of(old.spec, old.namespace).required_anti, pod)
    came_near = not _all_match(near, old) and _all_match(near, new)
    return came_near or (_all_match(far, old) and not _all_match(far, new))


def _nodes_change(pod: Pod, old: Node | None, new: Node) -> bool:
    terms = terms_of(pod.spec, pod.namespace)
    if terms.problems:
        return True
    for term in terms.required_affinity:
        before = None if old is None else old.labels.get(term.topology_key)
        if new.labels.get(term.topology_key) not in (None, before):
            return True
    if old is None:
        return bool(terms.required_anti)
    domains = [
        (old.labels.get(term.topology_key), new.labels.get(term.topology_key)) for term in terms.required_anti
    ]
    return any(before is not None and before != after for before, after in domains)


EVENTS = (
    EventHint(
        Resource.POD, Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE, _pods_change, by_shape=True
    ),
    EventHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, _nodes_change, by_shape=True),
)
