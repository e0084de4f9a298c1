"""Who is more important, and which node is the best to preempt on."""

from __future__ import annotations

from stowplan.objects import Pod
from stowplan.plugins.defaultpreemption.victims import Candidate, best_of, by_importance
from stowplan.testing.builders import make_pod


def _pod(name: str, priority: int = 0, started: str | None = "00:00:00") -> Pod:
    pod = make_pod(name).spec(priority=priority)
    return pod.status(startTime=started and f"2026-01-01T{started}Z").build()


def _names(pods: list[Pod]) -> list[str]:
    return [pod.name for pod in pods]


def test_priority_comes_before_running_time() -> None:
    pods = [
        _pod("low", -1),
        _pod("new", 5, "02:00:00"),
        _pod("old", 5, "01:00:00"),
        _pod("high", 9, "03:00:00"),
    ]
    assert _names(by_importance(pods)) == ["high", "old", "new", "low"]


def test_equals_keep_their_order() -> None:
    assert _names(by_importance([_pod("a"), _pod("b"), _pod("c")])) == ["a", "b", "c"]


def test_pods_that_have_not_started_are_the_least_important_and_the_last_of_them_the_most() -> None:
    pods = [
        _pod("a", started=None),
        _pod("b", started="23:00:00"),
        _pod("c", started=None),
        _pod("d", 1, None),
    ]
    assert _names(by_importance(pods)) == ["d", "b", "c", "a"]


def _best(*candidates: Candidate) -> list[int]:
    return [candidate.row for candidate in best_of(candidates)]


def test_broken_budgets_count_most() -> None:
    assert _best(Candidate(0, (_pod("a", 0),), 1), Candidate(1, (_pod("b", 100),))) == [1]


def test_then_the_priority_of_the_most_important_victim() -> None:
    assert _best(Candidate(0, (_pod("a", 10),)), Candidate(1, (_pod("b", 9), _pod("c", 9)))) == [1]


def test_then_the_sum_of_priorities_which_grows_with_every_victim() -> None:
    few, many = Candidate(0, (_pod("a", -10),)), Candidate(1, (_pod("b", -10), _pod("c", -10)))
    assert _best(many, few) == [0]
    assert _best(Candidate(0, (_pod("a", 9), _pod("b", 5))), Candidate(1, (_pod("c", 9), _pod("d", 4)))) == [
        1
    ]


def test_then_who_has_been_running_for_the_shortest_time() -> None:
    """Of the most important victims the one that started first counts."""
    old = Candidate(0, (_pod("a", 5, "01:00:00"), _pod("b", 0, "09:00:00")))
    new = Candidate(1, (_pod("c", 5, "02:00:00"), _pod("d", 0, "00:00:00")))
    unstarted = Candidate(2, (_pod("e", 5, None), _pod("f", 0, "00:00:00")))
    assert _best(old, new) == [1]
    assert _best(old, new, unstarted) == [2]


def test_equals_are_all_best() -> None:
    assert _best(Candidate(3, (_pod("a"),)), Candidate(1, (_pod("b"),))) == [3, 1]
    assert best_of([]) == []
