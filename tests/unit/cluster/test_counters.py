"""Counters: each counts what its matcher matches, whatever came before or after it was made."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.cluster import Cluster, counters
from stowplan.cluster.matching import AllOf, PodMatcher, SelectedPods
from stowplan.objects import EVERYTHING, LabelSelector, compile_selector, selector_from_labels
from stowplan.objects.meta import LabelSelectorRequirement
from stowplan.testing.builders import make_node, make_pod
from tests.unit.cluster.churn import SPACES, Step, clusters, steps

A = selector_from_labels({"app": "a"})
NOT_A = compile_selector(
    LabelSelector(match_expressions=(LabelSelectorRequirement(key="app", operator="NotIn", values=("a",)),))
)
MATCHERS: list[PodMatcher] = [
    SelectedPods(None, A),
    SelectedPods(frozenset(SPACES[:1]), A),
    SelectedPods(frozenset(SPACES), NOT_A),
    SelectedPods(None, EVERYTHING),
    AllOf((SelectedPods(None, A), SelectedPods(frozenset(SPACES[1:]), EVERYTHING))),
]


def check_all(cluster: Cluster) -> None:
    for matcher in MATCHERS:
        for terminating_too in (False, True):
            counter = cluster.counters.counter(matcher, terminating_too=terminating_too)
            wanted = [
                sum(
                    matcher.matches(pod.namespace, pod.labels) and (terminating_too or not pod.terminating)
                    for pod in node.pods
                )
                for node in cluster.nodes
            ]
            assert cluster.nodes.count(counter).tolist() == wanted
            assert counter.total == sum(wanted)


@settings(max_examples=100)
@given(clusters, st.lists(steps, max_size=20), st.sampled_from([3, 1024]))
def test_counters_are_right_after_any_changes_however_few_are_kept(
    nodes: list[Step], changes: list[Step], kept: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counters, "MAX_COUNTERS", kept)
        cluster = Cluster()
        for step in (*nodes, *changes):
            step(cluster)
            check_all(cluster)


def test_equal_questions_share_a_counter() -> None:
    cluster = Cluster()
    one = cluster.counters.counter(SelectedPods(frozenset({"s"}), selector_from_labels({"app": "a"})))
    assert cluster.counters.counter(SelectedPods(frozenset({"s"}), A)) is one
    assert cluster.counters.counter(SelectedPods(frozenset({"t"}), A)) is not one


def test_a_forgotten_counter_is_made_again_with_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "MAX_COUNTERS", 1)
    cluster = Cluster()
    cluster.add(make_node("n").build())
    first = cluster.counters.counter(MATCHERS[0])
    cluster.counters.counter(MATCHERS[1])
    cluster.add(make_pod("p").labels(app="a").on_node("n").build())
    again = cluster.counters.counter(MATCHERS[0])
    assert again is not first
    assert (first.total, again.total) == (0, 1)
    check_all(cluster)


def test_counters_grow_with_the_table() -> None:
    cluster = Cluster()
    counter = cluster.counters.counter(MATCHERS[0])
    for number in range(200):
        cluster.add(make_node(f"n{number}").build())
    cluster.add(make_pod("p").labels(app="a").on_node("n199").build())
    assert counter.column(200).tolist() == [0] * 199 + [1]
