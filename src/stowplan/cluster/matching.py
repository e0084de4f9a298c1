"""Which pods somebody speaks of, by namespace and labels, and finding quickly who speaks of a given pod.

Most selectors demand some label to have one certain value. Filed under that, the few that can match a pod
are found by the pod's own labels, however many selectors there are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

from stowplan.objects import Labels
from stowplan.objects.selectors import Selector

Anchor = tuple[str, str]


class PodMatcher(Protocol):
    """Which pods are meant. Equal matchers mean the same, always: the answer must depend on nothing but
    the pod's namespace and labels."""

    @property
    def namespaces(self) -> frozenset[str] | None:
        """The only namespaces where it matches; None when it may match anywhere."""
        ...

    @property
    def anchor(self) -> Anchor | None:
        """A label and value that every pod it matches has, if there is such a thing."""
        ...

    def matches(self, namespace: str, labels: Labels) -> bool: ...
    def __hash__(self) -> int: ...


class SelectedPods(NamedTuple):
    """The pods that a selector selects, in some namespaces or (None) in all."""

    namespaces: frozenset[str] | None
    selector: Selector

    @property
    def anchor(self) -> Anchor | None:
        return anchor_of(self.selector)

    def matches(self, namespace: str, labels: Labels) -> bool:
        return (self.namespaces is None or namespace in self.namespaces) and self.selector.matches(labels)


class AllOf(NamedTuple):
    """The pods that every one of several matchers matches; at least one is needed."""

    parts: tuple[PodMatcher, ...]

    @property
    def namespaces(self) -> frozenset[str] | None:
        limits = [part.namespaces for part in self.parts if part.namespaces is not None]
        return frozenset.intersection(*limits) if limits else None

    @property
    def anchor(self) -> Anchor | None:
        return next((part.anchor for part in self.parts if part.anchor is not None), None)

    def matches(self, namespace: str, labels: Labels) -> bool:
        return all(part.matches(namespace, labels) for part in self.parts)


def anchor_of(selector: Selector) -> Anchor | None:
    """A label and value without which the selector selects nothing."""
    for requirement in selector.requirements:
        if requirement.operator == "In" and len(requirement.values) == 1:
            return requirement.key, requirement.values[0]
    return None


T = TypeVar("T", bound=Hashable)


class MatcherIndex(Generic[T]):
    """Things filed by the namespaces and the anchor of what they match."""

    def __init__(self) -> None:
        self._filed: dict[tuple[str | None, Anchor | None], dict[T, None]] = {}

    def add(self, thing: T, namespaces: frozenset[str] | None, anchor: Anchor | None) -> None:
        for namespace in (None,) if namespaces is None else namespaces:
            self._filed.setdefault((namespace, anchor), {})[thing] = None

    def remove(self, thing: T, namespaces: frozenset[str] | None, anchor: Anchor | None) -> None:
        for namespace in (None,) if namespaces is None else namespaces:
            drawer = self._filed[namespace, anchor]
            del drawer[thing]
            if not drawer:
                del self._filed[namespace, anchor]

    def candidates(self, namespace: str, labels: Labels) -> Iterator[T]:
        """All that may match such a pod; nothing that is left out does."""
        for where in (namespace, None):
            for anchor in (None, *labels.items()):
                yield from self._filed.get((where, anchor), ())
