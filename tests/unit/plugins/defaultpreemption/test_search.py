"""How far the search goes where nothing but room matters: to every node."""

from __future__ import annotations

import pytest

from stowplan.cluster import Cluster
from stowplan.testing.builders import make_node, make_pod
from tests.unit.plugins.defaultpreemption.worlds import World


@pytest.mark.parametrize("best", range(6))
def test_where_only_room_matters_the_best_node_is_found_however_few_candidates_are_enough(best: int) -> None:
    cluster = Cluster()
    for i in range(6):
        cluster.add(make_node(f"n{i}").capacity(cpu=1, pods=10).build())
        cluster.add(
            make_pod(f"p{i}").requests(cpu=1).priority(1 if i == best else 2).on_node(f"n{i}").build()
        )
    world = World(cluster, min_candidate_nodes_percentage=0, min_candidate_nodes_absolute=1)
    assert world.decide(make_pod("high").requests(cpu=1).priority(9).build()).nominated_node == f"n{best}"
