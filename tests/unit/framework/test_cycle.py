"""PreFilter answers are merged by upstream's rules."""

from __future__ import annotations

from stowplan.framework import SKIP, Code, Narrow, pending, unresolvable, unschedulable
from stowplan.framework.cycle import merge_pre_filters


def narrow(*names: str) -> Narrow:
    return Narrow(frozenset(names))


def test_nothing_said_means_all_nodes() -> None:
    outcome = merge_pre_filters([("A", None), ("B", SKIP)])
    assert outcome.status is None and outcome.names is None and outcome.absent is None


def test_of_several_unschedulable_answers_the_last_counts() -> None:
    outcome = merge_pre_filters([("A", unschedulable("one")), ("B", unschedulable("two")), ("C", None)])
    assert outcome.status == unschedulable("two").by("B")
    assert outcome.absent == outcome.status


def test_an_unresolvable_answer_ends_it() -> None:
    outcome = merge_pre_filters([("A", unresolvable("one")), ("B", unschedulable("two"))])
    assert outcome.status == unresolvable("one").by("A")


def test_who_narrowed_the_search_does_not_matter_once_a_plugin_ends_it() -> None:
    ended = merge_pre_filters([("A", narrow("x")), ("B", unresolvable("no"))])
    assert ended.status == unresolvable("no").by("B")
    assert ended.narrowing == frozenset()
    rejected = merge_pre_filters([("A", narrow("x")), ("B", unschedulable("no"))])
    assert rejected.narrowing == frozenset({"A"})


def test_pending_is_a_rejection_of_its_own_kind() -> None:
    status = merge_pre_filters([("A", pending("later"))]).status
    assert status is not None and status.code is Code.PENDING and status.rejected


def test_narrowed_searches_are_intersected_and_the_others_say_why() -> None:
    outcome = merge_pre_filters([("B", narrow("x", "y")), ("A", narrow("y", "z"))])
    assert outcome.names == frozenset({"y"})
    assert outcome.absent == unresolvable("node(s) didn't satisfy plugin(s) [A B]")


def test_an_empty_intersection_is_a_rejection_that_names_the_plugins() -> None:
    both = merge_pre_filters([("B", narrow("x")), ("A", narrow("y")), ("C", unschedulable("no"))])
    assert both.status == unresolvable("node(s) didn't satisfy plugin(s) [A B] simultaneously")
    one = merge_pre_filters([("B", narrow())])
    assert one.status == unresolvable("node(s) didn't satisfy plugin B")
