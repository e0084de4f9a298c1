"""Disruption budgets: whose removal they forbid, and whose fate a changed budget touches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stowplan.cluster.tables import ObjectTable, object_key
from stowplan.objects import Labels, Pod, PodDisruptionBudget
from stowplan.objects.selectors import NOTHING, Selector, SelectorError, compile_selector

_MOST_CHANGES = 4096


class Budget:
    """What is read of one budget. Identity stands for it: its numbers are replaced in place."""

    __slots__ = ("allowed", "disrupted", "namespace", "selector")

    def __init__(self, budget: PodDisruptionBudget) -> None:
        self.namespace = budget.namespace
        self.selector = _selector_of(budget)
        self.update(budget)

    def update(self, budget: PodDisruptionBudget) -> None:
        self.allowed = budget.status.disruptions_allowed
        self.disrupted = budget.status.disrupted_pods


def _selector_of(budget: PodDisruptionBudget) -> Selector:
    """As upstream: an empty selector protects nothing, nor does one that nobody can read."""
    try:
        selector = compile_selector(budget.spec.selector)
    except SelectorError:
        return NOTHING
    return NOTHING if selector.empty else selector


class Budgets:
    """All budgets of the cluster. Which of them select a pod is remembered per namespace and labels."""

    def __init__(self, table: ObjectTable[PodDisruptionBudget]) -> None:
        self._table = table
        self._version = -1
        self._by_key: dict[str, Budget] = {}
        self._spaces: dict[str, list[Budget]] = {}
        self._matching: dict[tuple[str, Labels], tuple[Budget, ...]] = {}
        self._changes: list[Budget] = []
        self.generation = 0
        """Grows when budgets came, went, or select other pods."""

    def refresh(self) -> None:
        """Learns what changed. New numbers, which are what changes all day, cost next to nothing."""
        version = self._table.version
        if version == self._version:
            return
        keys = self._table.changed_since(self._version) if self._version >= 0 else None
        if keys is None or len(self._changes) > _MOST_CHANGES or not all(map(self._update, keys)):
            self._start_over()
        self._version = version

    def _update(self, key: str) -> bool:
        known, budget = self._by_key.get(key), self._table.get(key)
        if known is None or budget is None or known.selector is not _selector_of(budget):
            return False
        known.update(budget)
        self._changes.append(known)
        return True

    def _start_over(self) -> None:
        self._by_key = {object_key(budget): Budget(budget) for budget in self._table}
        self._spaces.clear()
        for budget in self._by_key.values():
            self._spaces.setdefault(budget.namespace, []).append(budget)
        self._matching.clear()
        self._changes.clear()
        self.generation += 1

    @property
    def position(self) -> int:
        """Where a reader that has seen every change of a number stands, within a generation."""
        return len(self._changes)

    def changed_since(self, position: int) -> frozenset[Budget]:
        """The budgets with changed numbers since then."""
        return frozenset(self._changes[position:])

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def of(self, pod: Pod) -> tuple[Budget, ...]:
        """The budgets that select the pod."""
        space = self._spaces.get(pod.namespace)
        if not space or not pod.labels:
            return ()
        key = (pod.namespace, pod.labels)
        found = self._matching.get(key)
        if found is None:
            found = tuple(budget for budget in space if budget.selector.matches(pod.labels))
            self._matching[key] = found
        return found

    def violated(self, victims: Sequence[Pod]) -> list[bool]:
        """For each victim whether a budget forbids its removal, after that of those before it. Removals that
        a budget already knows about are not counted again."""
        left: dict[Budget, int] = {}
        flags = []
        for pod in victims:
            forbidden = False
            for budget in self.of(pod):
                if pod.name not in budget.disrupted:
                    allowed = left[budget] = left.get(budget, budget.allowed) - 1
                    forbidden |= allowed < 0
            flags.append(forbidden)
        return flags

    def protect_any(self, pods: Iterable[Pod]) -> bool:
        """Whether one of the pods is selected by a budget."""
        return any(map(self.of, pods))
