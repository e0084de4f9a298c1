"""Which pod is more important, and which candidate is best."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from stowplan.objects import Pod

OFFSET = 2**31
"""Added to every priority when they are summed, so that one more victim never makes a node look better, not
even one of negative priority."""


def start_of(pod: Pod) -> float:
    """When the pod started; one that has not started yet counts as started after all others."""
    start = pod.status.start_time
    return math.inf if start is None else start


def importance(pod: Pod) -> tuple[int, float]:
    """Sort key, most important first: by priority, among equals those that have run longest."""
    return -pod.spec.priority, start_of(pod)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node on which the pod would fit without the victims, which stand most important first."""

    row: int
    victims: tuple[Pod, ...]
    violations: int = 0
    """How many victims a disruption budget protects."""

    @property
    def cost(self) -> tuple[int, int, int, int, float]:
        """The smaller, the better: budgets broken, highest priority, sum of priorities, number of victims;
        then the node whose most important victims have been running for the shortest time."""
        highest = self.victims[0].spec.priority
        earliest = min(start_of(pod) for pod in self.victims if pod.spec.priority == highest)
        total = sum(pod.spec.priority + OFFSET for pod in self.victims)
        return self.violations, highest, total, len(self.victims), -earliest


def best_of(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The candidates of the lowest cost, in their order; any of them is right."""
    costs = [(candidate.cost, candidate) for candidate in candidates]
    lowest = min((cost for cost, _ in costs), default=None)
    return [candidate for cost, candidate in costs if cost == lowest]
