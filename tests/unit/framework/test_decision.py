"""The sentence that says why no node will do."""

from __future__ import annotations

from stowplan.framework.decision import fit_error
from stowplan.testing.builders import make_node, make_pod
from stowplan.testing.deciding import cluster_of, decide, explain


def test_reasons_are_sorted_as_texts_with_their_counts_in_front() -> None:
    assert fit_error(12, {"b": 2, "a": 10}) == "0/12 nodes are available: 10 a, 2 b."


def test_no_reasons_leave_the_sentence_open() -> None:
    assert fit_error(0, {}) == "0/0 nodes are available:"


def test_a_node_with_several_reasons_counts_for_each() -> None:
    cluster = cluster_of(
        make_node("n1").capacity(cpu=1, memory=1, pods=1),
        make_node("n2").capacity(cpu=1, memory="8Gi", pods=1),
    )
    message = explain(cluster, make_pod("p").requests(cpu=2, memory="1Gi")).message
    assert message == "0/2 nodes are available: 1 Insufficient memory, 2 Insufficient cpu."


def test_a_cluster_without_nodes_is_said_to_be_one() -> None:
    assert decide(cluster_of(), make_pod("p")).message == "no nodes available to schedule pods"


def test_what_preemption_found_follows_the_reasons() -> None:
    cluster = cluster_of(make_node("n1").capacity(cpu=1, memory=1, pods=1))
    message = decide(cluster, make_pod("p").requests(cpu=2)).message
    assert message == (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
