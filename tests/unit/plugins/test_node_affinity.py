"""NodeAffinity: required and preferred terms, the administrator's added affinity, narrowing by name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.cluster import Cluster
from stowplan.framework import SKIP, CycleState, Narrow, unresolvable
from stowplan.objects import SelectorError
from stowplan.plugins.node_affinity import NodeAffinity
from stowplan.testing.builders import make_node, make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.judging import normalized, scores, statuses

NOT_MATCHED = unresolvable("node(s) didn't match Pod's node affinity/selector")
NOT_ENFORCED = unresolvable("node(s) didn't match scheduler-enforced node affinity")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def three_nodes() -> Cluster:
    cluster = Cluster()
    cluster.add(make_node("a").labels(zone="1", disk="ssd").build())
    cluster.add(make_node("b").labels(zone="2").build())
    cluster.add(make_node("c").labels(zone="2", disk="ssd").build())
    return cluster


def in_zone(*zones: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "zone", "operator": "In", "values": list(zones)}]}


def named(*names: str) -> dict[str, Any]:
    """A term that holds for a node that has all these names at once."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]
    return {"matchFields": fields}


def requiring(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def test_node_selector_and_required_terms_must_both_match() -> None:
    cluster = three_nodes()
    plugin = build_plugin(NodeAffinity, cluster)
    selector = make_pod("p").node_selector(disk="ssd")
    assert statuses(plugin, selector.build(), cluster) == [None, NOT_MATCHED, None]
    both = selector.require_nodes("zone", "2").build()
    assert statuses(plugin, both, cluster) == [NOT_MATCHED, NOT_MATCHED, None]


def test_one_of_the_terms_is_enough() -> None:
    cluster = three_nodes()
    plugin = build_plugin(NodeAffinity, cluster)
    pod = make_pod("p").spec(affinity=requiring(in_zone("1"), named("b"))).build()
    assert statuses(plugin, pod, cluster) == [None, None, NOT_MATCHED]


def test_a_pod_without_demands_is_skipped() -> None:
    cluster = three_nodes()
    plugin = build_plugin(NodeAffinity, cluster)
    plain = make_pod("p").build()
    assert not plugin.concerns(plain)
    for pod in (plain, make_pod("q").prefer_nodes(5, "zone", "1").build()):
        assert plugin.pre_filter(CycleState(), pod, cluster.nodes) == SKIP
    for pod in (plain, make_pod("q").require_nodes("zone", "1").build()):
        assert plugin.pre_score(CycleState(), pod, cluster.nodes) == SKIP


@pytest.mark.parametrize(
    ("terms", "answer"),
    [
        ([named("a")], Narrow(frozenset("a"))),
        ([named("a"), named("gone")], Narrow(frozenset(("a", "gone")))),
        ([named("a") | in_zone("1")], Narrow(frozenset("a"))),
        ([named("a"), in_zone("1")], None),
        ([named("a", "b")], unresolvable("pod affinity terms conflict")),
        ([named("a", "b"), named("c")], Narrow(frozenset("c"))),
        ([], None),
    ],
)
def test_terms_that_name_nodes_narrow_the_search(terms: list[dict[str, Any]], answer: object) -> None:
    cluster = three_nodes()
    plugin = build_plugin(NodeAffinity, cluster)
    pod = make_pod("p").spec(affinity=requiring(*terms)).build()
    assert plugin.pre_filter(CycleState(), pod, cluster.nodes) == answer


def test_preferred_terms_add_up() -> None:
    cluster = three_nodes()
    plugin = build_plugin(NodeAffinity, cluster)
    pod = make_pod("p").prefer_nodes(3, "zone", "2").prefer_nodes(10, "disk", "ssd").build()
    assert scores(plugin, pod, cluster) == [10, 3, 13]
    assert normalized(plugin, [10, 3, 13], cluster) == [76, 23, 100]
    assert normalized(plugin, [0, 0, 0], cluster) == [0, 0, 0]


def test_preferences_without_weight_or_conditions_do_not_count() -> None:
    cluster = three_nodes()
    plugin = build_plugin(NodeAffinity, cluster)
    choices = [{"weight": 0, "preference": in_zone("1")}, {"weight": 7, "preference": {}}]
    pod = make_pod("p").spec(affinity={"nodeAffinity": {PREFERRED: choices}}).build()
    assert scores(plugin, pod, cluster) == [0, 0, 0]


def test_a_preference_with_a_mistake_is_an_error() -> None:
    cluster = three_nodes()
    plugin = build_plugin(NodeAffinity, cluster)
    pod = make_pod("p").prefer_nodes(5, "zone", "x", operator="Gt").build()
    with pytest.raises(SelectorError, match="must be an integer"):
        plugin.pre_score(CycleState(), pod, cluster.nodes)


def test_the_added_affinity_holds_for_every_pod() -> None:
    cluster = three_nodes()
    added = {
        REQUIRED: {"nodeSelectorTerms": [in_zone("2")]},
        PREFERRED: [{"weight": 4, "preference": in_zone("2")}],
    }
    plugin = build_plugin(NodeAffinity, cluster, addedAffinity=added)
    plain = make_pod("p").build()
    assert plugin.concerns(plain)
    assert statuses(plugin, plain, cluster) == [NOT_ENFORCED, None, None]
    assert scores(plugin, plain, cluster) == [0, 4, 4]
    picky = make_pod("q").node_selector(disk="ssd").prefer_nodes(1, "disk", "ssd").build()
    assert statuses(plugin, picky, cluster) == [NOT_ENFORCED, NOT_MATCHED, None]
    assert scores(plugin, picky, cluster) == [1, 4, 5]


def test_added_preferences_that_say_nothing_score_nothing_but_score() -> None:
    cluster = three_nodes()
    plugin = build_plugin(NodeAffinity, cluster, addedAffinity={PREFERRED: [{"weight": 4, "preference": {}}]})
    pod = make_pod("p").build()
    assert plugin.concerns(pod)
    assert plugin.pre_score(CycleState(), pod, cluster.nodes) is None
    assert scores(plugin, pod, cluster) == [0, 0, 0]


def test_mistakes_in_the_added_affinity_are_told() -> None:
    wrong = {"matchExpressions": [{"key": "zone", "operator": "Near"}]}
    added = {REQUIRED: {"nodeSelectorTerms": [wrong]}, PREFERRED: [{"weight": 1, "preference": wrong}]}
    with pytest.raises(ValueError, match=rf"addedAffinity\.{REQUIRED}.*Near"):
        build_plugin(NodeAffinity, Cluster(), addedAffinity=added)
    with pytest.raises(ValueError, match=rf"addedAffinity\.{PREFERRED}.*Near"):
        build_plugin(NodeAffinity, Cluster(), addedAffinity={PREFERRED: added[PREFERRED]})


def test_a_relabelled_node_is_judged_anew() -> None:
    cluster = three_nodes()
    plugin = build_plugin(NodeAffinity, cluster)
    pod = make_pod("p").node_selector(disk="ssd").build()
    assert statuses(plugin, pod, cluster) == [None, NOT_MATCHED, None]
    cluster.add(make_node("b").labels(disk="ssd").build())
    assert statuses(plugin, pod, cluster) == [None, None, None]


ZONES = st.lists(st.sampled_from("123"), min_size=1, max_size=2)
TERMS = st.lists(ZONES.map(lambda zones: in_zone(*zones)) | st.sampled_from("abx").map(named), max_size=3)


@settings(max_examples=100)
@given(TERMS, st.lists(st.tuples(st.integers(0, 100), TERMS), max_size=3), st.booleans())
def test_columns_and_single_nodes_agree(
    required: list[dict[str, Any]],
    preferred: list[tuple[int, list[dict[str, Any]]]],
    added: bool,
) -> None:
    cluster = three_nodes()
    choices = [{"weight": weight, "preference": term} for weight, terms in preferred for term in terms]
    affinity = requiring(*required)
    affinity["nodeAffinity"][PREFERRED] = choices
    pod = make_pod("p").spec(affinity=affinity).build()
    args = {"addedAffinity": {REQUIRED: {"nodeSelectorTerms": [in_zone("2")]}}} if added else {}
    plugin = build_plugin(NodeAffinity, cluster, **args)
    statuses(plugin, pod, cluster)
    scores(plugin, pod, cluster)
