"""A percentage set by the user is honoured with upstream's numbers, order and rotation."""

from __future__ import annotations

import numpy as np
import pytest

from stowplan.cluster import Cluster, NodeRow
from stowplan.engine.sampling import Rotation, nodes_to_find
from stowplan.framework import CycleState, FilterPlugin, Status, unschedulable
from stowplan.objects import Pod
from stowplan.testing.builders import make_node, make_pod
from tests.unit.engine.profiles import decider


@pytest.mark.parametrize(
    ("percentage", "nodes", "found"),
    [(10, 99, 99), (10, 1000, 100), (20, 1000, 200), (33, 1001, 330), (1, 5000, 100), (100, 5000, 5000)],
)
def test_how_many_feasible_nodes_end_the_search(percentage: int, nodes: int, found: int) -> None:
    assert nodes_to_find(percentage, nodes) == found


def cluster_of(size: int) -> Cluster:
    cluster = Cluster()
    for i in range(size):
        cluster.add(make_node(f"n{i:03}").labels({"topology.kubernetes.io/zone": f"z{i % 2}"}).build())
    return cluster


def names(cluster: Cluster, mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[str]:
    return [cluster.table.nodes[row].name for row in np.flatnonzero(mask)]


def test_the_next_search_starts_where_the_last_one_ended() -> None:
    cluster = cluster_of(200)
    rotation = Rotation(cluster)
    everything = np.ones(200, np.bool_)
    first, looked_at = rotation.cut(everything, 50)
    second, _ = rotation.cut(everything, 50)
    assert looked_at == 100
    assert not (first & second).any()
    assert (first | second).all()


def test_the_search_goes_on_until_enough_nodes_can_take_the_pod() -> None:
    cluster = cluster_of(300)
    feasible = np.zeros(300, np.bool_)
    feasible[150:] = True
    kept, looked_at = Rotation(cluster).cut(feasible, 40)
    assert kept.sum() == 120
    assert looked_at == 270
    assert names(cluster, kept)[0] == "n150"


def test_with_too_few_feasible_nodes_all_are_looked_at() -> None:
    feasible = np.zeros(300, np.bool_)
    feasible[7] = True
    kept, looked_at = Rotation(cluster_of(300)).cut(feasible, 40)
    assert (kept.sum(), looked_at) == (1, 300)


class NotTheFirstHalf(FilterPlugin):
    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        return unschedulable("too early") if node.name < "n100" else None


def test_a_decision_by_percentage_counts_only_the_nodes_that_were_found() -> None:
    decision = decider(cluster_of(300), NotTheFirstHalf, percentage=40).decide(make_pod("p").build())
    assert (decision.feasible, decision.looked_at) == (120, 220)


def test_without_a_percentage_every_node_is_looked_at() -> None:
    decision = decider(cluster_of(300), NotTheFirstHalf).decide(make_pod("p").build())
    assert (decision.feasible, decision.looked_at) == (200, 300)
