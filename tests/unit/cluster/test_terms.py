"""Affinity terms of placed pods: compiled once, counted once, and seen by the pods they speak of."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.cluster import Cluster, terms
from stowplan.cluster.terms import NO_TERMS, TermKind, TermView, compile_term, terms_of
from stowplan.objects import NO_LABELS, Labels, LabelSelector, PodAffinityTerm, intern_labels
from stowplan.testing.builders import make_node, make_pod
from tests.unit.cluster.churn import APPS, KEYS, SPACES, Step, clusters, pod_with_terms, steps

A = LabelSelector(match_labels={"app": "a"})
APP_A = intern_labels({"app": "a"})


def term(**fields: Any) -> terms.Term:
    given = PodAffinityTerm(topology_key="zone", **{"label_selector": A, **fields})
    return compile_term(TermKind.REQUIRED_ANTI, "own", given)


class TestTerm:
    """Which pods a term speaks of."""

    def test_without_namespaces_and_selector_of_its_own_namespace(self) -> None:
        assert term().matches("own", NO_LABELS, APP_A)
        assert not term().matches("other", NO_LABELS, APP_A)

    def test_with_namespaces_of_those_only(self) -> None:
        listed = term(namespaces=("other",))
        assert listed.matches("other", NO_LABELS, APP_A)
        assert not listed.matches("own", NO_LABELS, APP_A)

    def test_with_an_empty_namespace_selector_of_all_even_unknown_ones(self) -> None:
        assert term(namespace_selector=LabelSelector()).matches("other", NO_LABELS, APP_A)

    def test_with_a_namespace_selector_of_namespaces_with_such_labels(self) -> None:
        selecting = term(namespace_selector=LabelSelector(match_labels={"team": "x"}))
        assert selecting.matches("other", intern_labels({"team": "x"}), APP_A)
        assert not selecting.matches("other", intern_labels({"team": "y"}), APP_A)
        assert not selecting.matches("own", NO_LABELS, APP_A)

    def test_without_a_label_selector_of_nobody(self) -> None:
        assert not term(label_selector=None).matches("own", NO_LABELS, APP_A)


def test_pods_without_affinity_to_pods_have_no_terms() -> None:
    assert terms_of(make_pod("p").build().spec, "default") is NO_TERMS
    assert terms_of(make_pod("p").require_nodes("zone", "x").build().spec, "default") is NO_TERMS


def test_terms_are_compiled_once_per_shape_and_namespace() -> None:
    spec = make_pod("p").pod_affinity("zone", app="a").build().spec
    assert terms_of(spec, "default") is terms_of(spec, "default")
    assert terms_of(spec, "other") != terms_of(spec, "default")


def test_a_mistake_makes_all_terms_of_its_kind_void_and_no_others() -> None:
    wrong = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Is"}]}}
    pod = make_pod("p").pod_affinity("zone", app="a").pod_anti_affinity("zone", app="a")
    required = pod.manifest["spec"]["affinity"]["podAffinity"]
    required["requiredDuringSchedulingIgnoredDuringExecution"].append(wrong)
    found = terms_of(pod.build().spec, "default")
    assert found.required_affinity == ()
    assert len(found.required_anti) == 1
    assert found.problems == ('requiredAffinityTerms: "Is" is not a valid label selector operator',)


def test_pods_that_the_same_terms_speak_of_share_a_view() -> None:
    cluster = Cluster()
    cluster.add(make_node("n").build())
    cluster.add(make_pod("p").pod_anti_affinity("zone", app="a").on_node("n").build())
    one = cluster.terms.view("default", NO_LABELS, intern_labels({"app": "a", "pod": "0"}))
    assert cluster.terms.view("default", NO_LABELS, intern_labels({"app": "a", "pod": "1"})) is one
    assert cluster.terms.view("default", NO_LABELS, intern_labels({"app": "b"})) is not one


def test_a_term_that_comes_later_is_seen_by_those_who_asked_before() -> None:
    cluster = Cluster()
    cluster.add(make_node("n").build())
    assert not cluster.terms.view("default", NO_LABELS, APP_A).anti
    cluster.add(make_pod("p").pod_anti_affinity("zone", app="a").on_node("n").build())
    assert cluster.terms.view("default", NO_LABELS, APP_A).anti["zone"].total == 1


def test_the_version_tells_when_a_term_appears_or_disappears() -> None:
    cluster = Cluster()
    cluster.add(make_node("n").build())
    pods = [make_pod(f"p{i}").pod_anti_affinity("zone", app="a").on_node("n").build() for i in range(2)]
    versions = [cluster.terms.version]
    for change, pod in (*((cluster.add, pod) for pod in pods), *((cluster.remove, pod) for pod in pods)):
        change(pod)
        versions.append(cluster.terms.version)
    assert [after - before for before, after in pairwise(versions)] == [1, 0, 0, 1]
    assert len(cluster.terms) == 0


def seen(view: TermView, cluster: Cluster) -> dict[tuple[str, str, int], int]:
    """Everything other than 0 that a view says, by what it is, topology key and row."""
    parts = {
        "anti": view.anti,
        "required": view.required,
        "preferred": view.preferred,
        "carriers": view.carriers,
    }
    return {
        (part, key, row): number
        for part, by_key in parts.items()
        for key, counts in by_key.items()
        for row, number in enumerate(counts.column(cluster.table.size).tolist())
        if number
    }


def told(cluster: Cluster, space: str, labels: Labels) -> dict[tuple[str, str, int], int]:
    """The same, from every pod and each of its terms."""
    found: Counter[tuple[str, str, int]] = Counter()
    for node in cluster.nodes:
        for pod in node.pods:
            for term in terms_of(pod.spec, pod.namespace).all:
                if not term.matches(space, NO_LABELS, labels):
                    continue
                place = (term.topology_key, node.row)
                if term.kind is TermKind.REQUIRED_ANTI:
                    found["anti", *place] += 1
                elif term.kind is TermKind.REQUIRED_AFFINITY:
                    found["required", *place] += 1
                else:
                    near = term.kind is TermKind.PREFERRED_AFFINITY
                    found["preferred", *place] += term.weight if near else -term.weight
                    found["carriers", *place] += 1
    return {place: number for place, number in found.items() if number}


@settings(max_examples=150)
@given(
    clusters, st.lists(steps, max_size=20), st.sampled_from([1, 512]), st.sampled_from([1, 4096]), st.data()
)
def test_views_say_what_all_pods_say_after_any_changes_and_trials(
    nodes: list[Step], changes: list[Step], watches: int, arrivals: int, data: st.DataObject
) -> None:
    kinds = [(space, intern_labels({"app": app})) for space in SPACES for app in APPS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terms, "MAX_WATCHES", watches)
        patch.setattr(terms, "MAX_ARRIVALS", arrivals)
        cluster = Cluster()
        for step in nodes:
            step(cluster)
        for step in changes:
            step(cluster)
            asked = data.draw(st.lists(st.sampled_from(kinds), max_size=3))
            if data.draw(st.booleans()):
                with cluster.trial():
                    data.draw(steps)(cluster)
                    for space, labels in asked:
                        view = cluster.terms.view(space, NO_LABELS, labels)
                        assert seen(view, cluster) == told(cluster, space, labels)
            for space, labels in asked:
                view = cluster.terms.view(space, NO_LABELS, labels)
                assert seen(view, cluster) == told(cluster, space, labels)


def test_the_churn_knows_every_kind_of_term() -> None:
    pod = pod_with_terms("p", "default", "a", ("+a zone", f"-b {KEYS[1]}", "+b zone 5", "-a zone 7")).build()
    assert [len(kind) for kind in terms_of(pod.spec, "default")] == [1, 1, 1, 1, 0]
