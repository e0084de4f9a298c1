"""Node selectors: every operator, what is malformed, and that columns and single nodes agree."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.cluster import Cluster
from stowplan.cluster.selection import labels_mask, matching, required_mask
from stowplan.objects import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
)
from stowplan.objects.meta import intern_labels
from stowplan.objects.selectors import NOTHING

LABELS = [{}, {"zone": "a"}, {"zone": "b", "cores": "8"}, {"zone": "", "cores": "sixteen"}, {"cores": "-2"}]


def cluster_of(labels: list[dict[str, str]]) -> Cluster:
    cluster = Cluster()
    for number, held in enumerate(labels):
        cluster.add(Node(name=f"n{number}", labels=intern_labels(held)))
    return cluster


def need(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


def any_of(*terms: NodeSelectorTerm) -> NodeSelector:
    return NodeSelector(node_selector_terms=terms)


def labels_term(*needs: NodeSelectorRequirement) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=needs)


def fields_term(*needs: NodeSelectorRequirement) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_fields=needs)


def selected(selector: NodeSelector, labels: list[dict[str, str]] = LABELS) -> list[int]:
    return [int(row) for row in matching(cluster_of(labels).nodes, selector).nonzero()[0]]


@pytest.mark.parametrize(
    ("requirement", "rows"),
    [
        (need("zone", "In", "a"), [1]),
        (need("zone", "In", "a", "", "nowhere"), [1, 3]),
        (need("zone", "NotIn", "a"), [0, 2, 3, 4]),
        (need("zone", "Exists"), [1, 2, 3]),
        (need("zone", "DoesNotExist"), [0, 4]),
        (need("cores", "Gt", "7"), [2]),
        (need("cores", "Gt", "8"), []),
        (need("cores", "Lt", "0"), [4]),
        (need("unheard-of", "NotIn", "x"), [0, 1, 2, 3, 4]),
    ],
)
def test_each_operator_on_labels(requirement: NodeSelectorRequirement, rows: list[int]) -> None:
    assert selected(any_of(labels_term(requirement))) == rows


@pytest.mark.parametrize(
    ("requirement", "rows"),
    [
        (need("metadata.name", "In", "n2"), [2]),
        (need("metadata.name", "In", "nobody"), []),
        (need("metadata.name", "NotIn", "n2"), [0, 1, 3, 4]),
        (need("metadata.uid", "In", ""), [0, 1, 2, 3, 4]),
        (need("metadata.uid", "In", "x"), []),
        (need("metadata.uid", "NotIn", "x"), [0, 1, 2, 3, 4]),
    ],
)
def test_fields_know_the_name_only_and_others_are_empty(
    requirement: NodeSelectorRequirement, rows: list[int]
) -> None:
    assert selected(any_of(fields_term(requirement))) == rows


def test_conditions_of_a_term_must_all_hold_and_one_term_is_enough() -> None:
    both = NodeSelectorTerm(
        match_expressions=(need("zone", "Exists"), need("cores", "Exists")),
        match_fields=(need("metadata.name", "NotIn", "n3"),),
    )
    assert selected(any_of(both)) == [2]
    assert selected(any_of(both, labels_term(need("cores", "Lt", "0")))) == [2, 4]


def test_empty_terms_and_no_terms_select_nothing() -> None:
    assert selected(any_of()) == []
    assert selected(any_of(NodeSelectorTerm())) == []
    assert selected(any_of(NodeSelectorTerm(), labels_term(need("zone", "In", "a")))) == [1]


WRONG = {
    "unknown operator": labels_term(need("zone", "Near", "a")),
    "In without values": labels_term(need("zone", "In")),
    "Exists with a value": labels_term(need("zone", "Exists", "a")),
    "Gt with two values": labels_term(need("cores", "Gt", "1", "2")),
    "Gt with a word": labels_term(need("cores", "Gt", "many")),
    "Gt beyond 64 bits": labels_term(need("cores", "Lt", "9223372036854775808")),
    "key without name": labels_term(need("example.com/", "Exists")),
    "key with two slashes": labels_term(need("a/b/c", "Exists")),
    "key with capital prefix": labels_term(need("Example.com/x", "Exists")),
    "key too long": labels_term(need("k" * 64, "Exists")),
    "value with a blank": labels_term(need("zone", "In", "a b")),
    "value too long": labels_term(need("zone", "NotIn", "v" * 64)),
    "field with two values": fields_term(need("metadata.name", "In", "n1", "n2")),
    "field without value": fields_term(need("metadata.name", "NotIn")),
    "field with Exists": fields_term(need("metadata.name", "Exists")),
}


@pytest.mark.parametrize("term", WRONG.values(), ids=WRONG)
def test_a_term_with_a_mistake_selects_nothing_and_leaves_the_others_alone(term: NodeSelectorTerm) -> None:
    assert selected(any_of(term)) == []
    assert selected(any_of(term, labels_term(need("zone", "In", "a")))) == [1]


def test_a_selector_of_nothing_selects_no_node() -> None:
    assert not labels_mask(cluster_of(LABELS).nodes, NOTHING).any()


def test_required_mask_joins_node_selector_and_affinity() -> None:
    in_zones = any_of(labels_term(need("zone", "In", "a", "b")))
    spec = PodSpec(
        node_selector={"cores": "8"}, affinity=Affinity(node_affinity=NodeAffinity(required=in_zones))
    )
    mask = required_mask(cluster_of(LABELS).nodes, spec)
    assert mask is not None
    assert mask.tolist() == [False, False, True, False, False]


def test_required_mask_is_none_when_nothing_is_required() -> None:
    nodes = cluster_of(LABELS).nodes
    assert required_mask(nodes, PodSpec()) is None
    assert required_mask(nodes, PodSpec(node_selector={})) is None
    assert required_mask(nodes, PodSpec(affinity=Affinity(node_affinity=NodeAffinity()))) is None


def test_a_required_affinity_without_terms_allows_no_node() -> None:
    spec = PodSpec(affinity=Affinity(node_affinity=NodeAffinity(required=NodeSelector())))
    mask = required_mask(cluster_of(LABELS).nodes, spec)
    assert mask is not None
    assert not mask.any()


def test_a_selection_works_on_some_rows() -> None:
    nodes = cluster_of(LABELS).nodes
    some = nodes.where(matching(nodes, any_of(labels_term(need("cores", "Exists")))))
    named = any_of(fields_term(need("metadata.name", "In", "n4")), labels_term(need("zone", "In", "b")))
    assert matching(some, named).tolist() == [True, False, True]


KEYS = st.sampled_from(["zone", "cores", "other"])
VALUES = st.sampled_from(["a", "b", "", "1", "2", "-3", "007"])
REQUIREMENTS = st.builds(
    need, KEYS, st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Odd"]), VALUES
) | st.builds(need, KEYS, st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]))
FIELDS = st.builds(
    need,
    st.sampled_from(["metadata.name", "metadata.uid"]),
    st.sampled_from(["In", "NotIn", "Exists"]),
    st.sampled_from(["n0", "n1", ""]),
)
TERMS = st.builds(
    NodeSelectorTerm,
    match_expressions=st.lists(REQUIREMENTS, max_size=3).map(tuple),
    match_fields=st.lists(FIELDS, max_size=2).map(tuple),
)


@settings(max_examples=200)
@given(
    st.lists(st.dictionaries(KEYS, VALUES), min_size=1, max_size=6),
    st.lists(TERMS, max_size=3),
    st.dictionaries(KEYS, VALUES, max_size=1),
)
def test_columns_and_single_nodes_agree(
    labels: list[dict[str, str]], terms: list[NodeSelectorTerm], node_selector: dict[str, str]
) -> None:
    cluster = cluster_of(labels)
    affinity = Affinity(node_affinity=NodeAffinity(required=any_of(*terms)))
    spec = PodSpec(node_selector=node_selector, affinity=affinity)
    mask = required_mask(cluster.nodes, spec)
    assert mask is not None
    required = spec.required_node_affinity
    assert mask.tolist() == [required.matches(node.labels, node.name) for node in cluster.nodes.objects]
    again = required_mask(cluster.nodes.where(mask), spec)
    assert again is not None
    assert again.all()
