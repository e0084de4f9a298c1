"""Ties are broken the same way every time for the same seed, pod and attempt, and evenly over pods."""

from __future__ import annotations

from collections import Counter

import numpy as np

from stowplan.engine.ties import pick_best
from stowplan.testing.builders import make_pod

TOTALS = np.array([5, 9, 1, 9, 9], np.int64)
POD = make_pod("p").build()
ANSWERS = [3, 4, 4, 3, 1, 1, 3, 1]


def test_the_same_question_has_the_same_answer() -> None:
    """In this process and in any other: these are the answers for good."""
    for _ in range(3):
        assert [pick_best(TOTALS, 7, POD, attempt) for attempt in range(8)] == ANSWERS


def test_only_the_best_are_picked_and_each_of_them_about_as_often() -> None:
    picked = Counter(pick_best(TOTALS, 0, make_pod(f"p{i}").build(), 0) for i in range(3000))
    assert set(picked) == {1, 3, 4}
    assert min(picked.values()) > 850


def test_another_attempt_or_seed_may_pick_another() -> None:
    assert len({pick_best(TOTALS, 0, POD, attempt) for attempt in range(20)}) == 3
    assert len({pick_best(TOTALS, seed, POD, 0) for seed in range(20)}) == 3
