"""What plugins see of the nodes is theirs to read: whatever they do with it, the cluster stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stowplan.cluster import Cluster, IntColumn, Nodes
from stowplan.cluster.matching import SelectedPods
from stowplan.framework import CycleState, Reads, ScorePlugin
from stowplan.objects import EVERYTHING, Pod
from stowplan.testing.builders import make_node, make_pod
from stowplan.testing.deciding import decide, scheduler
from tests.unit.cluster.picture import picture


def cluster_of(size: int) -> Cluster:
    cluster = Cluster()
    for number in range(size):
        node = make_node(f"n{number}").capacity({"cpu": number + 1, "pods": 10, "example.com/gpu": 1})
        cluster.add(node.labels(zone=f"z{number % 2}").build())
    cluster.add(make_pod("placed").requests(cpu=1).on_node("n0").build())
    return cluster


def counts(nodes: Nodes) -> IntColumn:
    return nodes.count(nodes.cluster.counters.counter(SelectedPods(None, EVERYTHING)))


COLUMNS: list[Callable[[Nodes], Any]] = [
    lambda nodes: nodes.allocatable("cpu"),
    lambda nodes: nodes.requested("cpu"),
    lambda nodes: nodes.free("example.com/gpu"),
    lambda nodes: nodes.pod_count,
    lambda nodes: nodes.nonzero_requested[0],
    lambda nodes: nodes.unschedulable,
    lambda nodes: nodes.label_ids("zone"),
    counts,
]


@pytest.mark.parametrize("size", [3, 200], ids=["as made", "grown"])
@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_of_all_nodes_cannot_be_written_into(column: Callable[[Nodes], Any], size: int) -> None:
    cluster = cluster_of(size)
    counts(cluster.nodes)
    with pytest.raises(ValueError, match="read-only"):
        column(cluster.nodes)[:] = 0


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_shows_what_came_after_the_first_look(column: Callable[[Nodes], Any]) -> None:
    cluster = cluster_of(3)
    column(cluster.nodes)
    for number in range(3, 200):
        cluster.add(make_node(f"n{number}").capacity(cpu=number + 1, pods=10).build())
    cluster.add(make_pod("another").requests(cpu=2).on_node("n1").build())
    fresh = Cluster()
    for obj in (*cluster.nodes.objects, *cluster.pods.values()):
        fresh.add(obj)
    np.testing.assert_array_equal(column(cluster.nodes), column(fresh.nodes))


def test_lists_are_copies() -> None:
    cluster = cluster_of(4)
    before = picture(cluster)
    cluster.nodes.objects.clear()
    cluster.nodes.names.sort(reverse=True)
    cluster.nodes.label_values("zone").append("nowhere")
    cluster.nodes[0].pods.clear()
    assert picture(cluster) == before


@pytest.mark.parametrize("reads", [Reads.CLUSTER, Reads.NODE], ids=["asked always", "remembered"])
def test_a_score_that_is_normalised_in_place_fails_and_changes_nothing(reads: Reads) -> None:
    class InPlace(ScorePlugin):
        def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntColumn:
            return nodes.allocatable("cpu")

        def normalize(self, state: CycleState, pod: Pod, scores: IntColumn, nodes: Nodes) -> IntColumn:
            scores //= 1000
            return scores

    InPlace.reads = reads
    cluster = cluster_of(4)
    before = picture(cluster)
    core = scheduler(cluster, plugins=[InPlace])
    for _ in range(3):
        decision = core.decide(make_pod("p").build())
        assert decision.message == 'running Score plugin "InPlace": output array is read-only'
    assert picture(cluster) == before
    assert decide(cluster, make_pod("p")).node_name
