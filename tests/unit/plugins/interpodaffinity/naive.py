"""Affinity between pods by the book: node by node and pod by pod, without columns or memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from stowplan.cluster import Cluster
from stowplan.cluster.terms import PodTerms, Term, terms_of
from stowplan.objects import NO_LABELS, Labels, Node, Pod

NOT_NEAR = "node(s) didn't match pod affinity rules"
NOT_FAR = "node(s) didn't match pod anti-affinity rules"
UNWANTED = "node(s) didn't satisfy existing pods anti-affinity rules"


def placed(cluster: Cluster) -> Iterator[tuple[Pod, Node]]:
    for node in cluster.nodes:
        for pod in node.pods:
            yield pod, node.node


def labels_of(cluster: Cluster, namespace: str) -> Labels:
    found = cluster.namespaces.get(namespace)
    return NO_LABELS if found is None else found.labels


def speaks_of(cluster: Cluster, term: Term, pod: Pod) -> bool:
    """For a term of a placed pod and the pod that is to be placed."""
    return term.matches(pod.namespace, labels_of(cluster, pod.namespace), pod.labels)


def asks_for(cluster: Cluster, term: Term, pod: Pod) -> bool:
    """For a term of the pod that is to be placed and a placed one. Namespaces are selected among those
    known, and then once more as if the pod's had no labels."""
    selector = term.namespace_selector
    chosen = {space.name for space in cluster.namespaces if selector.matches(space.labels)}
    near = pod.namespace in term.namespaces | chosen or selector.matches(NO_LABELS)
    return near and term.selector.matches(pod.labels)


def _terms(pod: Pod) -> PodTerms:
    return terms_of(pod.spec, pod.namespace)


def rejections(cluster: Cluster, pod: Pod) -> list[str | None]:
    """For every node why it may not take the pod."""
    near: Counter[tuple[str, str]] = Counter()
    far: Counter[tuple[str, str]] = Counter()
    unwanted: Counter[tuple[str, str]] = Counter()
    wanted = _terms(pod).required_affinity
    for other, node in placed(cluster):
        if wanted and all(asks_for(cluster, term, other) for term in wanted):
            near.update(_places(wanted, node))
        far.update(_places([t for t in _terms(pod).required_anti if asks_for(cluster, t, other)], node))
        unwanted.update(_places([t for t in _terms(other).required_anti if speaks_of(cluster, t, pod)], node))
    first = not near and all(asks_for(cluster, term, pod) for term in wanted)
    found: list[str | None] = []
    for one in cluster.nodes:
        labels = one.labels
        if any(t.topology_key not in labels for t in wanted) or not (
            first or all(near[t.topology_key, labels[t.topology_key]] for t in wanted)
        ):
            found.append(NOT_NEAR)
        elif any(far[place] for place in labels.items()):
            found.append(NOT_FAR)
        elif any(unwanted[place] for place in labels.items()):
            found.append(UNWANTED)
        else:
            found.append(None)
    return found


def _places(terms, node: Node) -> list[tuple[str, str]]:  # type: ignore[no-untyped-def]
    keys = [term.topology_key for term in terms]
    return [(key, node.labels[key]) for key in keys if key in node.labels]


def scores(
    cluster: Cluster, pod: Pod, rows: list[int], required_weight: int = 1, ignores_others: bool = False
) -> tuple[list[int], list[int]] | None:
    """For the nodes that can take the pod raw scores and scores as they count; None if nobody cares."""
    own = _terms(pod)
    if ignores_others and not (own.preferred_affinity or own.preferred_anti):
        return None
    liked: dict[tuple[str, str], int] = {}

    def like(terms: tuple[Term, ...], sign: int, node: Node, by_pod: Pod | None, required: int = 0) -> None:
        for term in terms:
            means = asks_for(cluster, term, by_pod) if by_pod else speaks_of(cluster, term, pod)
            if means and term.topology_key in node.labels:
                place = term.topology_key, node.labels[term.topology_key]
                liked[place] = liked.get(place, 0) + sign * (required or term.weight)

    for other, node in placed(cluster):
        like(own.preferred_affinity, 1, node, other)
        like(own.preferred_anti, -1, node, other)
        if required_weight:
            like(_terms(other).required_affinity, 1, node, None, required_weight)
        like(_terms(other).preferred_affinity, 1, node, None)
        like(_terms(other).preferred_anti, -1, node, None)
    if not liked:
        return None
    nodes = list(cluster.nodes)
    raw = [sum(liked.get(place, 0) for place in nodes[row].labels.items()) for row in rows]
    lowest, highest = min(raw), max(raw)
    if lowest == highest:
        return raw, [0] * len(raw)
    return raw, [int(100.0 * (float(score - lowest) / float(highest - lowest))) for score in raw]
