"""NodeResourcesFit's scores: each strategy's formula, and what counts as requested."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.cluster import Cluster
from stowplan.plugins.noderesources.columns import Load, Offered
from stowplan.plugins.noderesources.fit import NodeResourcesFit
from stowplan.plugins.noderesources.strategies import LeastAllocated, MostAllocated
from stowplan.testing.builders import make_node, make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.judging import scores

GPU = "example.com/gpu"


def one_node(**capacity: str | int) -> Cluster:
    cluster = Cluster()
    cluster.add(make_node("n").capacity(capacity, pods=100).build())
    return cluster


def strategy(
    kind: str, *resources: tuple[str, int], shape: list[tuple[int, int]] | None = None
) -> dict[str, Any]:
    config: dict[str, Any] = {"type": kind}
    if resources:
        config["resources"] = [{"name": name, "weight": weight} for name, weight in resources]
    if shape is not None:
        points = [{"utilization": at, "score": score} for at, score in shape]
        config["requestedToCapacityRatio"] = {"shape": points}
    return {"scoringStrategy": config}


def test_the_default_prefers_empty_nodes() -> None:
    cluster = one_node(cpu="4", memory="10000")
    plugin = build_plugin(NodeResourcesFit, cluster)
    # cpu: (4000 - 3000) / 4000 = 25; memory: (10000 - 5000) / 10000 = 50; mean 37.
    assert scores(plugin, make_pod("p").requests(cpu="3", memory="5000").build(), cluster) == [37]


def test_placed_pods_count_and_what_they_do_not_name_counts_as_default() -> None:
    cluster = one_node(cpu="1", memory="1000Mi")
    cluster.add(make_pod("there").on_node("n").build())
    plugin = build_plugin(NodeResourcesFit, cluster)
    # 100m and 200Mi each, for the one there and the new one: (80 + 60) / 2.
    assert scores(plugin, make_pod("p").build(), cluster) == [70]


def test_requests_of_the_pod_as_a_whole_do_not_count_for_a_new_pod() -> None:
    cluster = one_node(cpu="1", memory="1000Mi")
    plugin = build_plugin(NodeResourcesFit, cluster)
    pod = make_pod("p").spec(resources={"requests": {"cpu": "900m", "memory": "900Mi"}}).build()
    assert scores(plugin, pod, cluster) == [(90 + 80) // 2]


def test_more_than_the_node_has_scores_nothing() -> None:
    cluster = one_node(cpu="1", memory="1Gi")
    plugin = build_plugin(NodeResourcesFit, cluster)
    assert scores(plugin, make_pod("p").requests(cpu="2", memory="512Mi").build(), cluster) == [25]


def test_resources_that_a_node_does_not_offer_are_left_out_there() -> None:
    cluster = one_node(cpu="1")
    cluster.add(make_node("nothing").build())
    plugin = build_plugin(NodeResourcesFit, cluster)
    assert scores(plugin, make_pod("p").requests(cpu="200m", memory="1Gi").build(), cluster) == [80, 0]


def test_extended_resources_count_for_pods_that_request_them() -> None:
    cluster = one_node(cpu="1", memory="1Gi", **{GPU: 4})
    cluster.add(make_node("plain").capacity(cpu="1", memory="1Gi").build())
    args = strategy("LeastAllocated", ("cpu", 1), (GPU, 3), ("storage", 50))
    plugin = build_plugin(NodeResourcesFit, cluster, **args)
    assert scores(plugin, make_pod("p").requests(cpu="500m").build(), cluster) == [50, 50]
    with_gpu = make_pod("p").requests({"cpu": "500m", GPU: 1}).build()
    assert scores(plugin, with_gpu, cluster) == [(50 + 3 * 75) // 4, 50]


def test_most_allocated_prefers_full_nodes_by_weight() -> None:
    cluster = one_node(cpu="4", memory="10000")
    plugin = build_plugin(NodeResourcesFit, cluster, **strategy("MostAllocated", ("cpu", 2), ("memory", 1)))
    assert scores(plugin, make_pod("p").requests(cpu="3", memory="5000").build(), cluster) == [
        (150 + 50) // 3
    ]
    assert scores(plugin, make_pod("p").requests(cpu="9", memory="90000").build(), cluster) == [100]


def test_the_ratio_follows_its_shape() -> None:
    cluster = one_node(cpu="10", memory="10000")
    args = strategy("RequestedToCapacityRatio", ("cpu", 1), shape=[(0, 0), (40, 10), (100, 5)])
    plugin = build_plugin(NodeResourcesFit, cluster, **args)

    def score(cpu: str) -> list[int] | None:
        return scores(plugin, make_pod("p").requests(cpu=cpu).build(), cluster)

    assert score("1") == [25]
    assert score("4") == [100]
    # Falling: 100 + (50 - 100) * (57 - 40) / 60, and Go's division cuts -14.17 to -14.
    assert score("5700m") == [86]
    assert score("10") == [50]
    assert score("11") == [50]


def test_the_ratio_leaves_out_resources_that_score_nothing_and_rounds_to_the_nearest() -> None:
    cluster = one_node(cpu="10", memory="10000", **{GPU: 10})
    args = strategy(
        "RequestedToCapacityRatio", ("cpu", 1), ("memory", 1), (GPU, 1), shape=[(0, 0), (100, 10)]
    )
    plugin = build_plugin(NodeResourcesFit, cluster, **args)
    pod = make_pod("p").requests({"cpu": "1", "memory": "2500", GPU: 0}).build()
    assert scores(plugin, pod, cluster) == [18], "17.5 is rounded away from zero"
    assert scores(plugin, make_pod("p").requests(cpu="1", memory="1").build(), cluster) == [10]
    assert scores(plugin, make_pod("p").requests(cpu="1m", memory="1").build(), cluster) == [0]


def test_utilization_before_the_first_point_scores_as_there() -> None:
    cluster = one_node(cpu="10", memory="10000")
    args = strategy("RequestedToCapacityRatio", ("cpu", 1), shape=[(50, 3), (60, 8)])
    plugin = build_plugin(NodeResourcesFit, cluster, **args)
    assert scores(plugin, make_pod("p").requests(cpu="1").build(), cluster) == [30]
    assert scores(plugin, make_pod("p").requests(cpu="9").build(), cluster) == [80]


@pytest.mark.parametrize("capacity", [2**46, 2**46 + 1, 2**52, 2**56])
def test_percentages_are_exact_for_any_capacity(capacity: int) -> None:
    offered = Offered.made_of(np.array([[capacity]]))
    assert offered.exact == (capacity <= 2**46)
    for percent in (1, 29, 57, 99, 100):
        part = -(-percent * capacity // 100)
        parts = offered.form(np.array([[part - 1], [part]]))
        assert offered.percent(parts).ravel().tolist() == [percent - 1, percent]


@settings(max_examples=300)
@given(st.one_of(st.integers(1, 2**46), st.integers(1, 2**56)), st.integers(0, 2**62))
def test_columns_are_exact(capacity: int, requested: int) -> None:
    offered = Offered.made_of(np.array([[capacity]]))
    for formula in (LeastAllocated(), MostAllocated()):
        load = Load.made_of(offered.form(np.array([[requested]])), offered)
        assert formula.many(*load).item() == formula.one(requested, capacity)


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "ephemeral-storage", GPU]), st.integers(0, 7))
SHAPES = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 10)),
    min_size=1,
    max_size=4,
    unique_by=lambda point: point[0],
).map(sorted)


@settings(max_examples=200)
@given(
    st.sampled_from(["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]),
    st.lists(
        st.tuples(
            st.sampled_from(["cpu", "memory", "ephemeral-storage", GPU, "storage"]), st.integers(0, 100)
        ),
        max_size=4,
        unique_by=lambda resource: resource[0],
    ),
    SHAPES,
    st.lists(st.tuples(AMOUNTS, st.lists(AMOUNTS, max_size=3)), min_size=1, max_size=5),
    AMOUNTS,
)
def test_columns_and_single_nodes_agree(
    kind: str,
    resources: list[tuple[str, int]],
    shape: list[tuple[int, int]],
    nodes: list[tuple[dict[str, int], list[dict[str, int]]]],
    request: dict[str, int],
) -> None:
    cluster = Cluster()
    for number, (capacity, placed) in enumerate(nodes):
        cluster.add(make_node(f"n{number}").capacity(capacity).build())
        for i, used in enumerate(placed):
            cluster.add(make_pod(f"p{number}-{i}").requests(used).on_node(f"n{number}").build())
    args = strategy(kind, *resources, shape=shape if kind == "RequestedToCapacityRatio" else None)
    plugin = build_plugin(NodeResourcesFit, cluster, **args)
    found = scores(plugin, make_pod("p").requests(request).build(), cluster)
    assert found is not None
    assert all(0 <= score <= 100 for score in found)
