"""The affinity terms that placed pods carry, each kept once however many pods carry it.

Ten thousand replicas with one anti-affinity term are one entry here, with how many of
them each node holds. A pod that comes is matched against entries, never against pods, and all pods that
the same terms speak of share one `TermView`, whose sums follow the pods that come and go.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple
from weakref import WeakKeyDictionary

from stowplan.cluster.domains import RowCounts
from stowplan.cluster.matching import MatcherIndex, anchor_of
from stowplan.objects import Labels, Pod, PodAffinity, PodAffinityTerm, PodSpec
from stowplan.objects.selectors import Selector, SelectorError, compile_selector

MAX_WATCHES = 512
MAX_ARRIVALS = 4096


class TermKind(Enum):
    """What a placed pod wants of pods that come near it."""

    REQUIRED_AFFINITY = "requiredAffinityTerms"
    REQUIRED_ANTI = "requiredAntiAffinityTerms"
    PREFERRED_AFFINITY = "preferredAffinityTerms"
    PREFERRED_ANTI = "preferredAntiAffinityTerms"


class Term(NamedTuple):
    """An affinity term of a pod in one namespace, in the form in which equal terms are equal."""

    kind: TermKind
    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector
    topology_key: str
    weight: int = 1

    def matches(self, namespace: str, namespace_labels: Labels, labels: Labels) -> bool:
        """Whether a pod with these labels, in this namespace, is one the term speaks of. A namespace
        that is not known has no labels."""
        near = namespace in self.namespaces or self.namespace_selector.matches(namespace_labels)
        return near and self.selector.matches(labels)


def compile_term(kind: TermKind, namespace: str, term: PodAffinityTerm, weight: int = 1) -> Term:
    """The term of a pod in `namespace`: without namespaces and selector it speaks of its own one."""
    own = not term.namespaces and term.namespace_selector is None
    return Term(
        kind,
        frozenset((namespace,) if own else term.namespaces),
        compile_selector(term.namespace_selector),
        compile_selector(term.label_selector),
        term.topology_key,
        weight,
    )


class PodTerms(NamedTuple):
    """The compiled terms of a pod, by kind. A kind in which any term has a mistake is empty, and
    `problems` say why."""

    required_affinity: tuple[Term, ...] = ()
    required_anti: tuple[Term, ...] = ()
    preferred_affinity: tuple[Term, ...] = ()
    preferred_anti: tuple[Term, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def all(self) -> Iterable[Term]:
        return (*self.required_affinity, *self.required_anti, *self.preferred_affinity, *self.preferred_anti)


NO_TERMS = PodTerms()
_compiled: WeakKeyDictionary[PodSpec, dict[str, PodTerms]] = WeakKeyDictionary()


def terms_of(spec: PodSpec, namespace: str) -> PodTerms:
    """The affinity terms of pods with this spec in this namespace, compiled once per shape."""
    affinity = spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    per_namespace = _compiled.get(spec)
    if per_namespace is None:
        per_namespace = _compiled[spec] = {}
    terms = per_namespace.get(namespace)
    if terms is None:
        terms = per_namespace[namespace] = _compile(
            affinity.pod_affinity, affinity.pod_anti_affinity, namespace
        )
    return terms


def _compile(near: PodAffinity | None, far: PodAffinity | None, namespace: str) -> PodTerms:
    near, far = near or PodAffinity(), far or PodAffinity()
    kinds: list[tuple[Term, ...]] = []
    problems = []
    for kind, weighted in (
        (TermKind.REQUIRED_AFFINITY, [(1, term) for term in near.required]),
        (TermKind.REQUIRED_ANTI, [(1, term) for term in far.required]),
        (
            TermKind.PREFERRED_AFFINITY,
            [(choice.weight, choice.pod_affinity_term) for choice in near.preferred],
        ),
        (TermKind.PREFERRED_ANTI, [(choice.weight, choice.pod_affinity_term) for choice in far.preferred]),
    ):
        try:
            kinds.append(tuple(compile_term(kind, namespace, term, weight) for weight, term in weighted))
        except SelectorError as error:
            kinds.append(())
            problems.append(f"{kind.value}: {error}")
    return PodTerms(kinds[0], kinds[1], kinds[2], kinds[3], tuple(problems))


class TermEntry:
    """A term and how many pods of every row carry it: sparse, because there may be many terms."""

    __slots__ = ("rows", "term", "views")

    def __init__(self, term: Term) -> None:
        self.term = term
        self.rows: dict[int, int] = {}
        self.views: list[TermView] = []

    def add(self, row: int, amount: int) -> None:
        left = self.rows.get(row, 0) + amount
        if left:
            self.rows[row] = left
        else:
            del self.rows[row]
        for view in self.views:
            view.add(self.term, row, amount)

    @property
    def namespaces(self) -> frozenset[str] | None:
        """The only namespaces it speaks of; None when a namespace's labels may bring others in."""
        return self.term.namespaces if self.term.namespace_selector.selects_nothing else None


class TermView:
    """What the terms of placed pods say to one kind of pod: for each topology key, how many there are on
    every row. Shared by all pods that the same terms speak of."""

    __slots__ = ("_capacity", "anti", "carriers", "entries", "preferred", "required", "watches")

    def __init__(self, entries: frozenset[TermEntry], capacity: int) -> None:
        self.entries = entries
        self.watches = 0
        self.anti: dict[str, RowCounts] = {}
        """Required anti-affinity terms."""
        self.required: dict[str, RowCounts] = {}
        """Required affinity terms."""
        self.preferred: dict[str, RowCounts] = {}
        """The weights of preferred terms; those of anti-affinity are negative."""
        self.carriers: dict[str, RowCounts] = {}
        """Preferred terms, whatever their weights: those may cancel each other out."""
        self._capacity = capacity
        for entry in entries:
            entry.views.append(self)
            for counts, factor in self._places(entry.term):
                counts.add_all(entry.rows, factor)

    def add(self, term: Term, row: int, amount: int) -> None:
        for counts, factor in self._places(term):
            counts.add(row, amount * factor)

    def _places(self, term: Term) -> tuple[tuple[RowCounts, int], ...]:
        """What counts a term, and with which factor."""
        key = term.topology_key
        match term.kind:
            case TermKind.REQUIRED_ANTI:
                return ((self._counts(self.anti, key), 1),)
            case TermKind.REQUIRED_AFFINITY:
                return ((self._counts(self.required, key), 1),)
        weight = term.weight if term.kind is TermKind.PREFERRED_AFFINITY else -term.weight
        return (self._counts(self.preferred, key), weight), (self._counts(self.carriers, key), 1)

    def _counts(self, where: dict[str, RowCounts], key: str) -> RowCounts:
        counts = where.get(key)
        if counts is None:
            counts = where[key] = RowCounts(self._capacity)
        return counts

    def detach(self) -> None:
        for entry in self.entries:
            entry.views.remove(self)

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        for where in (self.anti, self.required, self.preferred, self.carriers):
            for counts in where.values():
                counts.grow(capacity)


class _Watch:
    """A kind of pod that was asked about: its view, and up to which arrival of terms that is right."""

    __slots__ = ("position", "view")

    def __init__(self, view: TermView, position: int) -> None:
        self.view = view
        self.position = position


_PodKind = tuple[str, Labels, Labels]


class AffinityTerms:
    """The terms of all placed pods; `version` grows when a term appears or disappears."""

    def __init__(self, capacity: int) -> None:
        self.version = 0
        self._capacity = capacity
        self._entries: dict[Term, TermEntry] = {}
        self._index: MatcherIndex[TermEntry] = MatcherIndex()
        self._arrivals: list[TermEntry] = []
        self._forgotten_arrivals = 0
        self._watches: OrderedDict[_PodKind, _Watch] = OrderedDict()
        self._views: dict[frozenset[TermEntry], TermView] = {}

    def entries(self) -> Iterable[TermEntry]:
        return self._entries.values()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, pod: Pod, row: int, amount: int) -> None:
        """A pod came to a row (amount 1) or left it (-1)."""
        for term in terms_of(pod.spec, pod.namespace).all:
            entry = self._entries.get(term) or self._new_entry(term)
            entry.add(row, amount)
            if not entry.rows:
                self._drop_entry(entry)

    def _new_entry(self, term: Term) -> TermEntry:
        entry = self._entries[term] = TermEntry(term)
        self._index.add(entry, entry.namespaces, anchor_of(term.selector))
        self._arrivals.append(entry)
        if len(self._arrivals) > 2 * MAX_ARRIVALS:
            del self._arrivals[:MAX_ARRIVALS]
            self._forgotten_arrivals += MAX_ARRIVALS
        self.version += 1
        return entry

    def _drop_entry(self, entry: TermEntry) -> None:
        """Views keep a dropped entry until they are replaced; it adds nothing to them any more."""
        del self._entries[entry.term]
        self._index.remove(entry, entry.namespaces, anchor_of(entry.term.selector))
        self.version += 1

    # Asking

    def view(self, namespace: str, namespace_labels: Labels, labels: Labels) -> TermView:
        """What the terms of placed pods say to a pod with these labels in this namespace."""
        kind = (namespace, namespace_labels, labels)
        watch = self._watches.get(kind)
        arrived = self._forgotten_arrivals + len(self._arrivals)
        if watch is None:
            return self._watch(kind, arrived).view
        if watch.position != arrived:
            self._catch_up(watch, kind, arrived)
        self._watches.move_to_end(kind)
        return watch.view

    def _watch(self, kind: _PodKind, arrived: int) -> _Watch:
        namespace, _, labels = kind
        candidates = self._index.candidates(namespace, labels)
        entries = frozenset(entry for entry in candidates if entry.term.matches(*kind))
        watch = self._watches[kind] = _Watch(self._take(entries), arrived)
        if len(self._watches) > MAX_WATCHES:
            self._release(self._watches.popitem(last=False)[1].view)
        return watch

    def _catch_up(self, watch: _Watch, kind: _PodKind, arrived: int) -> None:
        """Looks at the terms that came since this kind of pod was last asked about."""
        missed = watch.position - self._forgotten_arrivals
        if missed < 0:
            self._release(self._watches.pop(kind).view)
            watch.view = self._watch(kind, arrived).view
            return
        watch.position = arrived
        news = [entry for entry in self._arrivals[missed:] if entry.rows and entry.term.matches(*kind)]
        if news:
            before = watch.view
            watch.view = self._take(frozenset((*(entry for entry in before.entries if entry.rows), *news)))
            self._release(before)

    def _take(self, entries: frozenset[TermEntry]) -> TermView:
        view = self._views.get(entries)
        if view is None:
            view = self._views[entries] = TermView(entries, self._capacity)
        view.watches += 1
        return view

    def _release(self, view: TermView) -> None:
        view.watches -= 1
        if not view.watches:
            view.detach()
            del self._views[view.entries]

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        for view in self._views.values():
            view.grow(capacity)
