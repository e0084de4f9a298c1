"""Sums over domains: right after any change, in and after trials, and cheap copies for decisions."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.cluster import Cluster
from stowplan.cluster.domains import DomainCounts, Domains, RowCounts
from stowplan.cluster.matching import SelectedPods
from stowplan.objects import selector_from_labels
from stowplan.testing.builders import make_node, make_pod
from tests.unit.cluster.churn import KEYS, Step, clusters, steps

APP_A = SelectedPods(None, selector_from_labels({"app": "a"}))


def three_zones() -> Cluster:
    cluster = Cluster()
    for name, zone in (("n0", "x"), ("n1", "y"), ("n2", "x"), ("n3", None)):
        builder = make_node(name)
        cluster.add((builder.labels(zone=zone) if zone else builder).build())
    for number, node in enumerate(("n0", "n1", "n2", "n2", "n3")):
        cluster.add(make_pod(f"p{number}").labels(app="a").on_node(node).build())
    return cluster


def by_value(cluster: Cluster, key: str) -> dict[str, int]:
    """The remembered sums of pods of app a, by the value of a label."""
    domains = cluster.domains.get(key)
    sums = cluster.counters.counter(APP_A).by_domain(domains)
    assert sums[domains.missing] == 0
    return dict(zip(cluster.table.label(key).values, sums.tolist(), strict=False))


def counted_afresh(cluster: Cluster, key: str) -> Counter[str]:
    return Counter(
        node.labels[key]
        for pod in cluster.pods.values()
        if pod.labels["app"] == "a" and (node := _node_of(cluster, pod.node_name)) and key in node.labels
    )


def _node_of(cluster: Cluster, name: str):  # type: ignore[no-untyped-def]
    row = cluster.row_of(name)
    return None if row is None else cluster.table.nodes[row]


def test_pods_are_summed_by_the_label_of_their_node_and_not_without_it() -> None:
    assert by_value(three_zones(), "zone") == {"x": 3, "y": 1}


def test_a_pod_that_comes_or_goes_changes_a_remembered_sum() -> None:
    cluster = three_zones()
    by_value(cluster, "zone")
    cluster.add(make_pod("late").labels(app="a").on_node("n1").build())
    assert by_value(cluster, "zone") == {"x": 3, "y": 2}
    cluster.remove_pod("default/p0")
    assert by_value(cluster, "zone") == {"x": 2, "y": 2}


def test_a_relabelled_node_takes_its_pods_to_another_domain() -> None:
    cluster = three_zones()
    by_value(cluster, "zone")
    cluster.add(make_node("n2").labels(zone="y").build())
    assert by_value(cluster, "zone") == {"x": 1, "y": 3}


@settings(max_examples=150)
@given(clusters, st.lists(steps, max_size=25), st.data())
def test_remembered_sums_equal_fresh_ones_after_any_changes_and_trials(
    nodes: list[Step], changes: list[Step], data: st.DataObject
) -> None:
    cluster = Cluster()
    for step in nodes:
        step(cluster)
    for step in changes:
        step(cluster)
        if data.draw(st.booleans()):
            with cluster.trial():
                for tried in data.draw(st.lists(steps, max_size=3)):
                    tried(cluster)
                    for key in KEYS:
                        assert +Counter(by_value(cluster, key)) == counted_afresh(cluster, key)
        for key in KEYS:
            assert +Counter(by_value(cluster, key)) == counted_afresh(cluster, key)


def test_domains_are_remembered_until_a_node_changes() -> None:
    cluster = three_zones()
    before = cluster.domains.get("zone")
    cluster.add(make_pod("late").on_node("n1").build())
    assert cluster.domains.get("zone") is before
    cluster.add(make_node("n4").build())
    assert cluster.domains.get("zone") is not before


def test_in_a_trial_nothing_is_remembered_and_nothing_known_is_used() -> None:
    cluster = three_zones()
    before = cluster.domains.get("zone")
    with cluster.trial():
        tried = cluster.domains.get("zone")
        assert tried is not before
        assert not tried.kept
        assert cluster.domains.get("zone") is not tried
    assert cluster.domains.get("zone").kept


def test_rows_that_do_not_count_are_looked_up_but_not_summed() -> None:
    cluster = three_zones()
    domains = cluster.domains.get("zone", "not n2", lambda: np.array([True, True, False, True]))
    sums = cluster.counters.counter(APP_A).by_domain(domains)
    assert sums.take(domains.lookup).tolist() == [1, 1, 1, 0]
    assert domains.present.tolist() == [0, 1]


def test_a_domain_without_rows_that_count_is_not_present() -> None:
    cluster = three_zones()
    domains = cluster.domains.get("zone", "only x", lambda: np.array([True, False, True, True]))
    assert domains.present.tolist() == [0]


@pytest.mark.parametrize("empty_value_exists", [True, False])
def test_blank_domains_put_nodes_without_the_label_under_the_empty_value(empty_value_exists: bool) -> None:
    cluster = three_zones()
    if empty_value_exists:
        cluster.add(make_node("n4").labels(zone="").build())
    domains = cluster.domains.get("zone", blank=True)
    sums = cluster.counters.counter(APP_A).by_domain(domains)
    assert sums.take(domains.lookup).tolist() == [3, 1, 3, 1, 1][: len(cluster.nodes)]
    assert domains.labelled is not None
    assert domains.labelled.tolist() == [True, True, True, False, True][: len(cluster.nodes)]


def test_a_factor_multiplies_sums() -> None:
    cluster = three_zones()
    domains = cluster.domains.get("zone")
    assert cluster.counters.counter(APP_A).by_domain(domains, -2).tolist() == [-6, -2, 0]


def test_adding_many_rows_at_once_is_adding_each() -> None:
    counts = RowCounts(4)
    counts.add_all({0: 2, 3: 1}, -5)
    assert counts.column(4).tolist() == [-10, 0, 0, -5]
    assert counts.total == -15


class TestDomainCounts:
    """A decision's own copy."""

    def domains(self, rows: list[int], count: int) -> Domains:
        return Domains("zone", np.array(rows), count, np.ones(len(rows), np.bool_), None, kept=True)

    def counts(self, *numbers: int) -> DomainCounts:
        domains = self.domains(list(range(len(numbers))), len(numbers))
        return DomainCounts(domains, np.array([*numbers, 0]))

    def test_a_clone_changes_by_itself(self) -> None:
        counts = self.counts(4, 2)
        twin = counts.clone()
        twin.add(0, -3)
        assert (counts.at(0), counts.total, counts.lowest()) == (4, 6, 2)
        assert (twin.at(0), twin.total, twin.lowest()) == (1, 3, 1)
        assert twin.values().tolist() == [1, 2, 0]

    def test_without_a_domain_there_is_no_lowest_number(self) -> None:
        domains = self.domains([0], 0)
        assert DomainCounts(domains, np.array([0])).lowest() is None

    def test_rows_that_are_in_no_domain_change_nothing(self) -> None:
        counts = DomainCounts(self.domains([0, 1], 1), np.array([4, 0]))
        counts.add(1, 1)
        assert (counts.total, counts.values().tolist()) == (4, [4, 0])

    @given(
        st.lists(st.integers(0, 4), min_size=1, max_size=4),
        st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 2)), max_size=6),
    )
    def test_the_lowest_number_is_right_after_any_changes(
        self, numbers: list[int], changes: list[tuple[int, int]]
    ) -> None:
        counts = self.counts(*numbers)
        for domain, amount in changes:
            if domain < len(numbers):
                numbers[domain] += amount
                counts.add(domain, amount)
            assert counts.lowest() == min(numbers)
            assert counts.values().tolist() == [*numbers, 0]
            assert counts.total == sum(numbers)
