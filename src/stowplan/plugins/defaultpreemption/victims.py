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


def by_importance(pods: Iterable[Pod]) -> list[Pod]:
    """Most important first: by priority, among equals those that have run longest.

    Of equal pods that have not started, the last is the most important; other equals keep their order. That
    is what comes of upstream's sort, for which a pod that has not started does so when it is asked.
    """
    pods = list(pods)
    waiting = [pod for pod in pods if pod.status.start_time is None]
    if len(waiting) > 1:
        pods = [pod for pod in pods if pod.status.start_time is not None]
        pods += reversed(waiting)
    return sorted(pods, key=_importance)


def _importance(pod: Pod) -> tuple[int, float]:
    return -pod.spec.priority, start_of(pod)


def put_together(protected: list[Pod], others: list[Pod], *, both: bool) -> tuple[Pod, ...]:
    """The victims in order: those that budgets protect, and the others, each most important first already.
    `both` says whether there were candidates of both kinds, in which case upstream sorts once more."""
    return tuple(by_importance([*protected, *others]) if both else [*protected, *others])


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
