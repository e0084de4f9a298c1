"""What a pod that is to be placed wants of other pods: its terms as questions about placed pods."""

from __future__ import annotations

from typing import NamedTuple

from stowplan.cluster import Cluster
from stowplan.cluster.matching import AllOf, PodMatcher, SelectedPods
from stowplan.cluster.terms import NO_TERMS, PodTerms, Term, terms_of
from stowplan.objects import NO_LABELS, Pod, PodSpec

_MAX_KNOWN = 4096


class Wish(NamedTuple):
    """Pods to be near to or far from, in the domains of one topology key; `weight` is negative for far."""

    topology_key: str
    pods: SelectedPods
    weight: int = 1


class Wishes(NamedTuple):
    """All that a pod wants of other pods."""

    near: tuple[Wish, ...] = ()
    """Required affinity. One and the same pod must fulfil all of it, see `together`."""
    far: tuple[Wish, ...] = ()
    """Required anti-affinity."""
    preferred: tuple[Wish, ...] = ()
    problems: tuple[str, ...] = ()
    together: AllOf | None = None
    """The pods that all of `near` speaks of."""

    @property
    def required(self) -> bool:
        return bool(self.near or self.far)


NO_WISHES = Wishes()


class WishIndex:
    """The wishes of each shape of pod, found once as long as namespaces stay the same."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[tuple[PodSpec, str], Wishes] = {}
        self._version = -1

    def of(self, pod: Pod) -> Wishes:
        if pod.spec.affinity is None:
            return NO_WISHES
        version = self._cluster.namespaces.version
        if version != self._version or len(self._known) >= _MAX_KNOWN:
            self._known.clear()
            self._version = version
        shape = (pod.spec, pod.namespace)
        wishes = self._known.get(shape)
        if wishes is None:
            terms = terms_of(pod.spec, pod.namespace)
            wishes = self._known[shape] = NO_WISHES if terms is NO_TERMS else self._compile(terms)
        return wishes

    def _compile(self, terms: PodTerms) -> Wishes:
        near = tuple(self._wish(term, 1) for term in terms.required_affinity)
        preferred = (
            *(self._wish(term, term.weight) for term in terms.preferred_affinity),
            *(self._wish(term, -term.weight) for term in terms.preferred_anti),
        )
        return Wishes(
            near=near,
            far=tuple(self._wish(term, 1) for term in terms.required_anti),
            preferred=preferred,
            problems=terms.problems,
            together=AllOf(tuple(wish.pods for wish in near)) if near else None,
        )

    def _wish(self, term: Term, weight: int) -> Wish:
        """Selects namespaces now, by their labels. As upstream has it, a namespace selector that accepts a
        namespace without labels then lets pods of every namespace count."""
        selector = term.namespace_selector
        if selector.matches(NO_LABELS):
            return Wish(term.topology_key, SelectedPods(None, term.selector), weight)
        selected = () if selector.selects_nothing else self._cluster.namespaces
        names = term.namespaces | {space.name for space in selected if selector.matches(space.labels)}
        return Wish(term.topology_key, SelectedPods(names, term.selector), weight)


def fulfils(matcher: PodMatcher, pod: Pod) -> bool:
    """Whether the pod is one that is meant."""
    return matcher.matches(pod.namespace, pod.labels)
