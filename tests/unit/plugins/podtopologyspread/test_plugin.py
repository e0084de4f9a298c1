"""PodTopologySpread: every form agrees with spreading by the book, after any changes and in trials."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.cluster import Cluster
from stowplan.framework import SKIP, CycleState
from stowplan.objects import Pod, Service, TopologySpreadConstraint, selector_from_labels
from stowplan.plugins.podtopologyspread import PodTopologySpread
from stowplan.testing.builders import make_node, make_object, make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.cluster.churn import KEYS, Step, clusters, steps
from tests.unit.plugins.judging import statuses
from tests.unit.plugins.podtopologyspread import naive
from tests.unit.plugins.trials import tried_changes

SELECTORS: list[dict[str, Any] | None] = [
    {"matchLabels": {"app": "a"}},
    {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["b"]}]},
    {},
    None,
]


def constraint(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def constraints(*actions: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    policies = st.sampled_from([None, "Honor", "Ignore"])
    one = st.builds(
        constraint,
        maxSkew=st.integers(1, 3),
        topologyKey=st.sampled_from(KEYS),
        whenUnsatisfiable=st.sampled_from(actions),
        labelSelector=st.sampled_from(SELECTORS),
        minDomains=st.sampled_from([None, 1, 3]),
        nodeAffinityPolicy=policies,
        nodeTaintsPolicy=policies,
        matchLabelKeys=st.sampled_from([None, ["app", "absent"]]),
    )
    return st.lists(one, min_size=1, max_size=2)


def incoming(spread: list[dict[str, Any]], app: str, zone: str | None = None, tolerates: bool = False) -> Pod:
    pod = make_pod("incoming").labels(app=app).spec(topologySpreadConstraints=spread)
    if zone:
        pod.node_selector(zone=zone)
    if tolerates:
        pod.tolerate("busy")
    return pod.build()


def pods(*actions: str) -> st.SearchStrategy[Pod]:
    return st.builds(
        incoming,
        constraints(*actions),
        st.sampled_from(["a", "b"]),
        st.sampled_from([None, "x"]),
        st.booleans(),
    )


def reasons(plugin: PodTopologySpread, pod: Pod, cluster: Cluster) -> list[str | None]:
    return [status and status.message for status in statuses(plugin, pod, cluster)]


@settings(max_examples=150)
@given(
    clusters, st.lists(steps, max_size=15), st.lists(pods("DoNotSchedule"), min_size=1, max_size=3), st.data()
)
def test_filtering_is_by_the_book_after_any_changes(
    nodes: list[Step], changes: list[Step], asked: list[Pod], data: st.DataObject
) -> None:
    cluster = Cluster()
    for step in nodes:
        step(cluster)
    plugin = build_plugin(PodTopologySpread, cluster)
    for step in changes:
        step(cluster)
        pod = data.draw(st.sampled_from(asked))
        assert reasons(plugin, pod, cluster) == naive.rejections(cluster, pod)
        if data.draw(st.booleans()):
            with cluster.trial():
                data.draw(steps)(cluster)
                assert reasons(plugin, pod, cluster) == naive.rejections(cluster, pod)


@settings(max_examples=150)
@given(clusters, st.lists(steps, max_size=12), pods("DoNotSchedule"), st.data())
def test_pods_that_trials_add_and_remove_are_counted(
    nodes: list[Step], changes: list[Step], pod: Pod, data: st.DataObject
) -> None:
    """Only where upstream counts the same ones in trials as elsewhere: no terminating pods, no selector
    that selects everything."""
    cluster = Cluster()
    for step in (*nodes, *changes):
        step(cluster)
    for placed in [*cluster.pods.values()]:
        if placed.terminating:
            cluster.remove(placed)
    if any(selector.empty for _, selector in naive.own(pod, "DoNotSchedule")):
        return
    plugin = build_plugin(PodTopologySpread, cluster)
    state = CycleState()
    plugin.pre_filter(state, pod, cluster.nodes)
    before = naive.rejections(cluster, pod)

    def new_pod(name: str, node: str) -> Pod:
        return make_pod(name).labels(app=data.draw(st.sampled_from(["a", "b"]))).on_node(node).build()

    for trial_state in tried_changes(plugin, state, pod, cluster, new_pod, data):
        verdict = plugin.filter(trial_state, pod, cluster.nodes)
        found = [verdict.status_of(c).message if c else None for c in verdict.codes.tolist()]
        assert found == naive.rejections(cluster, pod)
        assert [
            status and status.message
            for status in (plugin.filter_node(trial_state, pod, node) for node in cluster.nodes)
        ] == found
    verdict = plugin.filter(state, pod, cluster.nodes)
    assert [verdict.status_of(c).message if c else None for c in verdict.codes.tolist()] == before


def check_scores(
    plugin: PodTopologySpread, pod: Pod, cluster: Cluster, rows: list[int], **naively: Any
) -> None:
    nodes = (
        cluster.nodes if len(rows) == len(cluster.nodes) else cluster.nodes.where(cluster.nodes.mask(rows))
    )
    state = CycleState()
    assert plugin.pre_score(state, pod, nodes) is None
    raw = plugin.score(state, pod, nodes)
    result = raw.tolist(), plugin.normalize(state, pod, raw, nodes).tolist()
    assert result == naive.scores(cluster, pod, rows, **naively)
    assert [plugin.score_node(state, pod, node) for node in nodes] == result[0]
    if rows:
        some = cluster.nodes.where(cluster.nodes.mask(rows[:1]))
        assert plugin.score(state, pod, some).tolist() == result[0][:1]


@settings(max_examples=150)
@given(
    clusters,
    st.lists(steps, max_size=15),
    st.lists(pods("ScheduleAnyway"), min_size=1, max_size=3),
    st.data(),
)
def test_scoring_is_by_the_book_after_any_changes(
    nodes: list[Step], changes: list[Step], asked: list[Pod], data: st.DataObject
) -> None:
    cluster = Cluster()
    for step in nodes:
        step(cluster)
    plugin = build_plugin(PodTopologySpread, cluster)
    for step in changes:
        step(cluster)
        if not len(cluster.nodes):
            continue
        pod = data.draw(st.sampled_from(asked))
        rows = sorted(data.draw(st.sets(st.sampled_from(range(len(cluster.nodes))), min_size=1)))
        check_scores(plugin, pod, cluster, rows, constraints=naive.own(pod, "ScheduleAnyway"))


@settings(max_examples=100)
@given(clusters, st.lists(steps, max_size=12), st.sampled_from([None, "x"]), st.data())
def test_default_spreading_is_by_the_book_after_any_changes(
    nodes: list[Step], changes: list[Step], zone: str | None, data: st.DataObject
) -> None:
    cluster = Cluster()
    cluster.add(make_object(Service, "a", spec={"selector": {"app": "a"}}))
    for step in nodes:
        step(cluster)
    plugin = build_plugin(PodTopologySpread, cluster)
    pod = incoming([], "a", zone)
    # The built-in constraints, but over the zone label of these tests.
    own = [
        TopologySpreadConstraint(topology_key=key, max_skew=skew, when_unsatisfiable="ScheduleAnyway")
        for key, skew in ((naive.HOSTNAME, 3), ("zone", 5))
    ]
    plugin._defaults = tuple(own)
    rules = [(constraint, selector_from_labels({"app": "a"})) for constraint in own]
    for step in changes:
        step(cluster)
        if len(cluster.nodes):
            rows = sorted(data.draw(st.sets(st.sampled_from(range(len(cluster.nodes))), min_size=1)))
            check_scores(plugin, pod, cluster, rows, constraints=rules, every_key=False)


def test_a_pod_without_constraints_that_belongs_to_nothing_is_left_alone() -> None:
    cluster = Cluster()
    plugin = build_plugin(PodTopologySpread, cluster)
    pod = make_pod("p").labels(app="a").build()
    assert plugin.pre_filter(CycleState(), pod, cluster.nodes) == SKIP
    assert plugin.pre_score(CycleState(), pod, cluster.nodes) == SKIP


def test_with_an_empty_list_of_defaults_only_pods_with_constraints_concern_it() -> None:
    plugin = build_plugin(PodTopologySpread, Cluster(), defaultingType="List")
    assert not plugin.concerns(make_pod("p").build())
    assert plugin.concerns(make_pod("p").spread("zone", app="a").build())


def test_scores_of_equal_nodes_are_all_the_highest() -> None:
    cluster = Cluster()
    for name in ("n0", "n1"):
        cluster.add(make_node(name).labels(zone=name).build())
    plugin = build_plugin(PodTopologySpread, cluster)
    state = CycleState()
    pod = incoming([constraint(maxSkew=1, topologyKey="zone", whenUnsatisfiable="ScheduleAnyway")], "a")
    assert plugin.pre_score(state, pod, cluster.nodes) is None
    raw = plugin.score(state, pod, cluster.nodes)
    assert raw.tolist() == [0, 0]
    assert plugin.normalize(state, pod, raw, cluster.nodes).tolist() == [100, 100]
    assert plugin.normalize(state, pod, np.array([10_000_000, 0]), cluster.nodes).tolist() == [0, 100]
