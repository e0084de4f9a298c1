"""The affinity terms that placed pods carry, each kept once however many pods carry it.

Ten thousand replicas with one anti-affinity term are one entry here, with a column saying how many of
them each node holds. A pod that comes is matched against entries, never against pods.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from stowplan.cluster.columns import IntColumn, grown
from stowplan.objects import Labels, Pod, PodAffinityTerm, PodSpec
from stowplan.objects.selectors import Selector, compile_selector


class TermKind(Enum):
    """What a placed pod wants of pods that come near it."""

    REQUIRED_AFFINITY = "required affinity"
    REQUIRED_ANTI = "required anti-affinity"
    PREFERRED_AFFINITY = "preferred affinity"
    PREFERRED_ANTI = "preferred anti-affinity"


class Term(NamedTuple):
    """An affinity term of a pod in one namespace, in the form in which equal terms are equal."""

    kind: TermKind
    namespaces: frozenset[str]
    namespace_selector: Selector | None
    selector: Selector
    topology_key: str
    weight: int

    def matches(self, namespace: str, namespace_labels: Labels | None, labels: Labels) -> bool:
        """Whether a pod with these labels, in this namespace, is one the term speaks of."""
        near = namespace in self.namespaces or (
            self.namespace_selector is not None
            and namespace_labels is not None
            and self.namespace_selector.matches(namespace_labels)
        )
        return near and self.selector.matches(labels)


class TermEntry:
    """A term and how many pods of every row carry it."""

    __slots__ = ("_column", "term", "total")

    def __init__(self, term: Term, capacity: int) -> None:
        self.term = term
        self.total = 0
        self._column: IntColumn = np.zeros(capacity, np.int64)

    def column(self, size: int) -> IntColumn:
        return self._column[:size]

    def add(self, row: int, amount: int) -> None:
        self._column[row] += amount
        self.total += amount

    def grow(self, capacity: int) -> None:
        self._column = grown(self._column, capacity)  # type: ignore[assignment]


def compile_term(kind: TermKind, namespace: str, term: PodAffinityTerm, weight: int = 1) -> Term:
    """The term of a pod in `namespace`: without namespaces and selector it speaks of its own one."""
    own = not term.namespaces and term.namespace_selector is None
    return Term(
        kind,
        frozenset((namespace,) if own else term.namespaces),
        None if term.namespace_selector is None else compile_selector(term.namespace_selector),
        compile_selector(term.label_selector),
        term.topology_key,
        weight,
    )


def _compile_all(spec: PodSpec, namespace: str) -> Iterable[Term]:
    affinity = spec.affinity
    if affinity is None:
        return
    for kinds, side in (
        ((TermKind.REQUIRED_AFFINITY, TermKind.PREFERRED_AFFINITY), affinity.pod_affinity),
        ((TermKind.REQUIRED_ANTI, TermKind.PREFERRED_ANTI), affinity.pod_anti_affinity),
    ):
        if side is None:
            continue
        for required in side.required:
            yield compile_term(kinds[0], namespace, required)
        for preferred in side.preferred:
            yield compile_term(kinds[1], namespace, preferred.pod_affinity_term, preferred.weight)


_compiled: WeakKeyDictionary[PodSpec, dict[str, tuple[Term, ...]]] = WeakKeyDictionary()


def terms_of(spec: PodSpec, namespace: str) -> tuple[Term, ...]:
    """All affinity terms of pods with this spec in this namespace, compiled once per shape."""
    if spec.affinity is None:
        return ()
    per_namespace = _compiled.setdefault(spec, {})
    terms = per_namespace.get(namespace)
    if terms is None:
        terms = per_namespace[namespace] = tuple(_compile_all(spec, namespace))
    return terms


class AffinityTerms:
    """The terms of all placed pods; `version` grows when a term appears or disappears."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: dict[Term, TermEntry] = {}
        self.version = 0

    def entries(self) -> Iterable[TermEntry]:
        return self._entries.values()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, pod: Pod, row: int, amount: int) -> None:
        """A pod came to a row (amount 1) or left it (-1)."""
        for term in terms_of(pod.spec, pod.namespace):
            entry = self._entries.get(term)
            if entry is None:
                entry = self._entries[term] = TermEntry(term, self._capacity)
                self.version += 1
            entry.add(row, amount)
            if not entry.total:
                del self._entries[term]
                self.version += 1

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        for entry in self._entries.values():
            entry.grow(capacity)
