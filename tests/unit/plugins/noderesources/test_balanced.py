"""NodeResourcesBalancedAllocation: better balance scores above 75, worse below."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.cluster import Cluster
from stowplan.framework import SKIP, CycleState
from stowplan.plugins.noderesources.balanced import NodeResourcesBalancedAllocation
from stowplan.testing.builders import make_node, make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.judging import scores

GPU = "example.com/gpu"


def one_node(used: dict[str, str | int], **capacity: str | int) -> Cluster:
    cluster = Cluster()
    cluster.add(make_node("n").capacity(capacity, pods=100).build())
    if used:
        cluster.add(make_pod("there").requests(used).on_node("n").build())
    return cluster


def test_a_pod_that_changes_nothing_is_neutral() -> None:
    cluster = one_node({}, cpu="10", memory="1000")
    plugin = build_plugin(NodeResourcesBalancedAllocation, cluster)
    assert scores(plugin, make_pod("p").requests(cpu="1", memory="100").build(), cluster) == [75]


def test_evening_out_is_better_and_tilting_is_worse() -> None:
    cluster = one_node({"cpu": "5"}, cpu="10", memory="1000")
    plugin = build_plugin(NodeResourcesBalancedAllocation, cluster)
    # Before: |0.5 - 0| / 2, so 75 of 100. With memory half full: 100. With cpu full: 50.
    assert scores(plugin, make_pod("p").requests(memory="500").build(), cluster) == [
        50 + (50 + 100 - 75) // 2
    ]
    assert scores(plugin, make_pod("p").requests(cpu="5").build(), cluster) == [50 + (50 + 50 - 75) // 2]


def test_what_is_requested_counts_and_no_defaults() -> None:
    cluster = one_node({}, cpu="1", memory="1000Mi")
    plugin = build_plugin(NodeResourcesBalancedAllocation, cluster)
    assert scores(plugin, make_pod("p").requests(cpu="1").build(), cluster) == [50]


def test_requests_of_the_pod_as_a_whole_count() -> None:
    cluster = one_node({}, cpu="10", memory="1000")
    plugin = build_plugin(NodeResourcesBalancedAllocation, cluster)
    pod = make_pod("p").spec(resources={"requests": {"cpu": "10"}}).build()
    assert scores(plugin, pod, cluster) == [50]


def test_fuller_than_full_is_full() -> None:
    cluster = one_node({}, cpu="1", memory="1000")
    plugin = build_plugin(NodeResourcesBalancedAllocation, cluster)
    assert scores(plugin, make_pod("p").requests(cpu="5", memory="1000").build(), cluster) == [75]


def test_a_single_resource_is_always_in_balance() -> None:
    cluster = one_node({}, cpu="4")
    plugin = build_plugin(NodeResourcesBalancedAllocation, cluster)
    assert scores(plugin, make_pod("p").requests(cpu="4", memory="1").build(), cluster) == [75]


def test_three_resources_by_standard_deviation() -> None:
    cluster = one_node({}, cpu="10", memory="1000", **{GPU: 10})
    resources = [{"name": "cpu"}, {"name": "memory"}, {"name": GPU}]
    plugin = build_plugin(NodeResourcesBalancedAllocation, cluster, resources=resources)
    pod = make_pod("p").requests({"cpu": "6", "memory": "0", GPU: 3}).build()
    # 0.6, 0 and 0.3: mean 0.3, deviation sqrt(0.06) = 0.2449, so 75 with the pod and 100 without.
    assert scores(plugin, pod, cluster) == [50 + (50 + 75 - 100) // 2]
    assert scores(plugin, make_pod("p").requests(cpu="6").build(), cluster) == [50 + (50 + 70 - 100) // 2]


def test_a_pod_that_requests_nothing_is_skipped() -> None:
    cluster = one_node({}, cpu="10", memory="1000")
    plugin = build_plugin(NodeResourcesBalancedAllocation, cluster)
    for pod in (make_pod("p").build(), make_pod("p").requests({GPU: 1, "cpu": "0"}).build()):
        assert not plugin.concerns(pod)
        assert plugin.pre_score(CycleState(), pod, cluster.nodes) == SKIP
        assert scores(plugin, pod, cluster) is None


def test_what_is_kept_follows_pods_and_nodes_and_is_not_used_in_trials() -> None:
    cluster = one_node({}, cpu="10", memory="1000")
    plugin = build_plugin(NodeResourcesBalancedAllocation, cluster)
    pod = make_pod("p").requests(memory="500").build()
    assert scores(plugin, pod, cluster) == [50 + (50 + 75 - 100) // 2]
    there = make_pod("there").requests(cpu="5").on_node("n").build()
    with cluster.trial():
        cluster.add(there)
        assert scores(plugin, pod, cluster) == [50 + (50 + 100 - 75) // 2]
    assert scores(plugin, pod, cluster) == [50 + (50 + 75 - 100) // 2]
    cluster.add(there)
    assert scores(plugin, pod, cluster) == [50 + (50 + 100 - 75) // 2]
    cluster.add(make_node("n").capacity(cpu="20", memory="1000").build())
    assert scores(plugin, pod, cluster) == [50 + (50 + 87 - 87) // 2]
    cluster.add(make_node("m").capacity(cpu="10", memory="1000").build())
    assert scores(plugin, pod, cluster) == [75, 50 + (50 + 75 - 100) // 2]


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", GPU]), st.integers(0, 13))
CHOICES = st.lists(
    st.sampled_from(["cpu", "memory", GPU, "ephemeral-storage", "storage"]), max_size=4, unique=True
)


@settings(max_examples=300)
@given(CHOICES, st.lists(st.tuples(AMOUNTS, st.lists(AMOUNTS, max_size=2)), min_size=1, max_size=5), AMOUNTS)
def test_columns_and_single_nodes_agree(
    names: list[str], nodes: list[tuple[dict[str, int], list[dict[str, int]]]], request: dict[str, int]
) -> None:
    cluster = Cluster()
    for number, (capacity, placed) in enumerate(nodes):
        cluster.add(make_node(f"n{number}").capacity(capacity).build())
        for i, used in enumerate(placed):
            cluster.add(make_pod(f"p{number}-{i}").requests(used).on_node(f"n{number}").build())
    resources = [{"name": name} for name in names]
    plugin = build_plugin(NodeResourcesBalancedAllocation, cluster, resources=resources)
    found = scores(plugin, make_pod("p").requests(request).build(), cluster)
    assert found is None or all(50 <= score <= 100 for score in found)
