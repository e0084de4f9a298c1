"""InterPodAffinity: every form agrees with affinity by the book, after any changes and in trials."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.cluster import Cluster
from stowplan.framework import SKIP, CycleState, unresolvable
from stowplan.objects import Namespace, Pod
from stowplan.plugins.interpodaffinity import InterPodAffinity, InterPodAffinityArgs
from stowplan.testing.builders import make_node, make_object, make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.cluster.churn import APPS, SPACES, Step, clusters, pod_with_terms, steps, terms
from tests.unit.plugins.interpodaffinity import naive
from tests.unit.plugins.trials import tried_changes


def namespace_step(name: str, team: str | None) -> Step:
    namespace = make_object(Namespace, name, labels={"team": team} if team else {})
    return lambda cluster: cluster.add(namespace)


def selecting_step(kind: str, selector: dict[str, Any] | None, named: bool, node: str) -> Step:
    """A placed pod with a required term that selects namespaces."""
    pod = selecting_pod("selecting", kind, selector, named).on_node(node).build()
    return lambda cluster: cluster.add(pod)


def selecting_pod(name: str, kind: str, selector: dict[str, Any] | None, named: bool):  # type: ignore[no-untyped-def]
    term: dict[str, Any] = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}
    if selector is not None:
        term["namespaceSelector"] = selector
    if named:
        term["namespaces"] = ["other"]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return make_pod(name).labels(app="a").affinity(**{kind: required})


selectors = st.sampled_from(
    [
        None,
        {},
        {"matchLabels": {"team": "x"}},
        {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["x"]}]},
        {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
    ]
)
kinds = st.sampled_from(["podAffinity", "podAntiAffinity"])
changes = st.one_of(
    steps,
    steps,
    st.builds(namespace_step, st.sampled_from(SPACES), st.sampled_from([None, "x", "y"])),
    st.builds(selecting_step, kinds, selectors, st.booleans(), st.sampled_from(["n0", "n1"])),
)
incoming = st.one_of(
    st.builds(
        lambda space, app, wanted: pod_with_terms("incoming", space, app, wanted).build(),
        st.sampled_from(SPACES),
        st.sampled_from(APPS),
        terms,
    ),
    st.builds(
        lambda kind, selector, named: selecting_pod("incoming", kind, selector, named).build(),
        kinds,
        selectors,
        st.booleans(),
    ),
)


def reasons(plugin: InterPodAffinity, pod: Pod, cluster: Cluster) -> list[str | None]:
    """What the filter says of every node, in both forms."""
    state = CycleState()
    if plugin.pre_filter(state, pod, cluster.nodes) == SKIP:
        return [None] * len(cluster.nodes)
    return filtered(plugin, state, pod, cluster)


def filtered(plugin: InterPodAffinity, state: CycleState, pod: Pod, cluster: Cluster) -> list[str | None]:
    verdict = plugin.filter(state, pod, cluster.nodes)
    found = [verdict.status_of(code).message if code else None for code in verdict.codes.tolist()]
    one_by_one = [plugin.filter_node(state, pod, node) for node in cluster.nodes]
    assert [status and status.message for status in one_by_one] == found
    every_other = cluster.nodes.where(np.arange(len(cluster.nodes)) % 2 == 1)
    some = plugin.filter(state, pod, every_other)
    assert [some.status_of(c).message if c else None for c in some.codes.tolist()] == found[1::2]
    return found


def cluster_after(all_steps: list[Step]) -> Cluster:
    cluster = Cluster()
    for step in all_steps:
        step(cluster)
    return cluster


@settings(max_examples=150)
@given(clusters, st.lists(changes, max_size=15), st.lists(incoming, min_size=1, max_size=3), st.data())
def test_filtering_is_by_the_book_after_any_changes(
    nodes: list[Step], after: list[Step], asked: list[Pod], data: st.DataObject
) -> None:
    cluster = cluster_after(nodes)
    plugin = build_plugin(InterPodAffinity, cluster)
    for step in after:
        step(cluster)
        pod = data.draw(st.sampled_from(asked))
        assert reasons(plugin, pod, cluster) == naive.rejections(cluster, pod)
        in_trial = data.draw(st.booleans())
        if in_trial:
            with cluster.trial():
                data.draw(changes)(cluster)
                assert reasons(plugin, pod, cluster) == naive.rejections(cluster, pod)


@settings(max_examples=150)
@given(clusters, st.lists(changes, max_size=12), incoming, st.data())
def test_pods_that_trials_add_and_remove_are_counted(
    nodes: list[Step], after: list[Step], pod: Pod, data: st.DataObject
) -> None:
    cluster = cluster_after([*nodes, *after])
    plugin = build_plugin(InterPodAffinity, cluster)
    state = CycleState()
    if plugin.pre_filter(state, pod, cluster.nodes) == SKIP:
        return
    before = naive.rejections(cluster, pod)

    def new_pod(name: str, node: str) -> Pod:
        app, wanted = data.draw(st.sampled_from(APPS)), data.draw(terms)
        return pod_with_terms(name, "default", app, wanted).on_node(node).build()

    for trial_state in tried_changes(plugin, state, pod, cluster, new_pod, data):
        assert filtered(plugin, trial_state, pod, cluster) == naive.rejections(cluster, pod)
    assert filtered(plugin, state, pod, cluster) == before


@settings(max_examples=200)
@given(
    clusters,
    st.lists(changes, max_size=15),
    st.lists(incoming, min_size=1, max_size=3),
    st.sampled_from([0, 1, 5]),
    st.booleans(),
    st.data(),
)
def test_scoring_is_by_the_book_after_any_changes(
    nodes: list[Step],
    after: list[Step],
    asked: list[Pod],
    weight: int,
    ignores: bool,
    data: st.DataObject,
) -> None:
    cluster = cluster_after(nodes)
    args = {"hardPodAffinityWeight": weight, "ignorePreferredTermsOfExistingPods": ignores}
    plugin = build_plugin(InterPodAffinity, cluster, **args)
    for step in after:
        step(cluster)
        if not len(cluster.nodes):
            continue
        pod = data.draw(st.sampled_from(asked))
        rows = sorted(data.draw(st.sets(st.sampled_from(range(len(cluster.nodes))), min_size=1)))
        feasible = cluster.nodes.where(cluster.nodes.mask(rows))
        state = CycleState()
        wanted = naive.scores(cluster, pod, rows, weight, ignores)
        if plugin.pre_score(state, pod, feasible) == SKIP:
            assert wanted is None
            continue
        raw = plugin.score(state, pod, feasible)
        assert (raw.tolist(), plugin.normalize(state, pod, raw, feasible).tolist()) == wanted
        assert [plugin.score_node(state, pod, node) for node in feasible] == raw.tolist()


def test_a_pod_that_nobody_speaks_of_and_that_wants_nothing_is_left_alone() -> None:
    cluster = Cluster()
    cluster.add(make_node("n").labels(zone="x").build())
    plugin = build_plugin(InterPodAffinity, cluster)
    for _ in range(2):
        assert plugin.pre_filter(CycleState(), make_pod("p").build(), cluster.nodes) == SKIP
        assert plugin.pre_score(CycleState(), make_pod("p").build(), cluster.nodes) == SKIP
        cluster.add(make_pod("q").pod_anti_affinity("zone", app="b").on_node("n").build())


def test_terms_that_cancel_each_other_out_are_not_silence() -> None:
    cluster = Cluster()
    cluster.add(make_node("n").labels(zone="x").build())
    for name, add in (("q", "pod_affinity"), ("r", "pod_anti_affinity")):
        builder = make_pod(name)
        getattr(builder, add)("zone", weight=5, app="a")
        cluster.add(builder.on_node("n").build())
    plugin = build_plugin(InterPodAffinity, cluster)
    state = CycleState()
    pod = make_pod("p").labels(app="a").build()
    assert plugin.pre_score(state, pod, cluster.nodes) is None
    assert plugin.score(state, pod, cluster.nodes).tolist() == [0]


def test_a_topology_key_that_no_node_has_is_silence() -> None:
    cluster = Cluster()
    cluster.add(make_node("n").build())
    cluster.add(make_pod("q").labels(app="a").on_node("n").build())
    plugin = build_plugin(InterPodAffinity, cluster)
    pod = make_pod("p").pod_affinity("zone", weight=5, app="a").build()
    assert plugin.pre_score(CycleState(), pod, cluster.nodes) == SKIP


def test_wide_scores_are_scaled_like_narrow_ones() -> None:
    cluster = Cluster()
    plugin = build_plugin(InterPodAffinity, cluster)
    scores = np.array([-7, 10_000_000, 1_234_567])
    assert plugin.normalize(CycleState(), Pod(), scores, cluster.nodes).tolist() == [0, 100, 12]
    narrow = np.arange(-3, 26)
    wanted = [int(100.0 * (float(s + 3) / 28.0)) for s in range(-3, 26)]
    assert plugin.normalize(CycleState(), Pod(), narrow, cluster.nodes).tolist() == wanted


@pytest.mark.parametrize(
    ("kinds", "text"),
    [
        (["podAffinity"], "parsing pod: requiredAffinityTerms: {why}"),
        (
            ["podAffinity", "podAntiAffinity"],
            "parsing pod: [requiredAffinityTerms: {why}, requiredAntiAffinityTerms: {why}]",
        ),
    ],
)
def test_a_mistake_in_a_term_makes_the_pod_unresolvable(kinds: list[str], text: str) -> None:
    wrong = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Is"}]}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [wrong]}
    pod = make_pod("p").affinity(**dict.fromkeys(kinds, required)).build()
    cluster = Cluster()
    plugin = build_plugin(InterPodAffinity, cluster)
    why = '"Is" is not a valid label selector operator'
    assert plugin.pre_filter(CycleState(), pod, cluster.nodes) == unresolvable(text.format(why=why))


def test_codes_say_whether_removing_pods_may_help() -> None:
    cluster = Cluster()
    for name, zone in (("n0", "x"), ("n1", "y")):
        cluster.add(make_node(name).labels(zone=zone, host=name).build())
    cluster.add(make_pod("q").labels(app="a").on_node("n0").build())
    plugin = build_plugin(InterPodAffinity, cluster)

    def codes(pod: Pod) -> list[str | None]:
        state = CycleState()
        plugin.pre_filter(state, pod, cluster.nodes)
        found = [plugin.filter_node(state, pod, node) for node in cluster.nodes]
        return [status and status.code.name for status in found]

    assert codes(make_pod("p").pod_affinity("zone", app="a").build()) == [None, "UNRESOLVABLE"]
    assert codes(make_pod("p").pod_anti_affinity("zone", app="a").build()) == ["UNSCHEDULABLE", None]
    cluster.add(make_pod("r").pod_anti_affinity("zone", app="b").on_node("n1").build())
    assert codes(make_pod("p").labels(app="b").build()) == [None, "UNSCHEDULABLE"]


@pytest.mark.parametrize("weight", [-1, 101])
def test_a_weight_out_of_range_is_a_problem(weight: int) -> None:
    assert [path for path, _ in InterPodAffinityArgs(hard_pod_affinity_weight=weight).problems()] == [
        "hardPodAffinityWeight"
    ]
    assert InterPodAffinityArgs(hard_pod_affinity_weight=abs(weight) - 1).problems() == []
