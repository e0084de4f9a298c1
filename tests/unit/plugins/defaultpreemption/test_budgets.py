"""Whose removal a disruption budget forbids."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.cluster import Cluster
from stowplan.objects import PodDisruptionBudget
from stowplan.plugins.defaultpreemption.budgets import Budgets
from stowplan.testing.builders import make_object, make_pod

WEB = {"matchLabels": {"app": "web"}}


def _budget(
    allowed: int,
    selector: Any = WEB,
    disrupted: tuple[str, ...] = (),
    name: str = "budget",
    space: str = "default",
) -> PodDisruptionBudget:
    times = dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")
    status = {"disruptionsAllowed": allowed, "disruptedPods": times}
    return make_object(PodDisruptionBudget, name, space, spec={"selector": selector}, status=status)


def _budgets(*budgets: PodDisruptionBudget) -> tuple[Cluster, Budgets]:
    cluster = Cluster()
    for budget in budgets:
        cluster.add(budget)
    known = Budgets(cluster.disruption_budgets)
    known.refresh()
    return cluster, known


PODS = [make_pod(name).labels(app="web").build() for name in ("a", "b", "c")]


@pytest.mark.parametrize(("allowed", "violated"), [(0, [1, 1, 1]), (1, [0, 1, 1]), (3, [0, 0, 0])])
def test_a_budget_allows_so_many(allowed: int, violated: list[int]) -> None:
    assert _budgets(_budget(allowed))[1].violated(PODS) == violated


def test_disrupted_pods_are_not_counted_again() -> None:
    assert _budgets(_budget(1, disrupted=("a",)))[1].violated(PODS) == [False, False, True]


def test_every_budget_counts() -> None:
    """Also those that come after one that is broken already."""
    both = _budget(0, name="none"), _budget(2, name="two")
    assert _budgets(*both)[1].violated([*PODS]) == [True, True, True]


@pytest.mark.parametrize(
    "selector",
    [None, {}, {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["web"]}]}],
    ids=["absent", "empty", "unreadable"],
)
def test_selectors_that_protect_nothing(selector: Any) -> None:
    assert not any(_budgets(_budget(0, selector))[1].violated(PODS))


def test_other_namespaces_and_pods_without_labels_are_not_protected() -> None:
    everybody = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}
    budgets = _budgets(_budget(0, everybody, space="other"), _budget(0, everybody))[1]
    assert budgets.violated([make_pod("bare").build(), PODS[0]]) == [False, True]


def test_new_numbers_are_noticed_without_starting_over() -> None:
    cluster, budgets = _budgets(_budget(0))
    generation, position = budgets.generation, budgets.position
    cluster.add(_budget(3))
    budgets.refresh()
    assert budgets.violated(PODS) == [False, False, False]
    assert budgets.generation == generation
    assert budgets.changed_since(position) == set(budgets.of(PODS[0]))


def test_another_selector_and_removal_are_noticed() -> None:
    cluster, budgets = _budgets(_budget(0))
    cluster.add(_budget(0, {"matchLabels": {"app": "db"}}))
    budgets.refresh()
    assert not any(budgets.violated(PODS))
    cluster.add(_budget(0))
    budgets.refresh()
    assert all(budgets.violated(PODS))
    cluster.remove(_budget(0))
    budgets.refresh()
    assert not budgets
