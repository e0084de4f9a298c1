"""ImageLocality: sizes, shares of nodes, thresholds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.cluster import Cluster
from stowplan.plugins.image_locality import ImageLocality, normal_name
from stowplan.testing.builders import make_node, make_pod
from stowplan.testing.plugins import build_plugin
from tests.unit.plugins.judging import scores

MIB = 1024 * 1024


def cluster_of(*images: dict[str, int]) -> Cluster:
    cluster = Cluster()
    for number, held in enumerate(images):
        node = make_node(f"n{number}")
        for name, size in held.items():
            node.image(name, size=size)
        cluster.add(node.build())
    return cluster


def test_a_large_image_counts_by_the_share_of_nodes_that_hold_it() -> None:
    cluster = cluster_of({"big:1": 500 * MIB}, {}, {"big:1": 500 * MIB}, {"small:1": 10 * MIB})
    plugin = build_plugin(ImageLocality, cluster)
    # 500 MiB on half of the nodes count as 250: (250 - 23) / (1000 - 23).
    assert scores(plugin, make_pod("p").image("big:1").build(), cluster) == [23, 0, 23, 0]
    assert scores(plugin, make_pod("p").image("small:1").build(), cluster) == [0, 0, 0, 0]


def test_more_than_a_gigabyte_for_each_container_is_full_score() -> None:
    cluster = cluster_of({"huge:1": 5000 * MIB})
    plugin = build_plugin(ImageLocality, cluster)
    assert scores(plugin, make_pod("p").image("huge:1").build(), cluster) == [100]


@pytest.mark.parametrize(("size", "score"), [(2**63 - 1, 100), (-(2**63), 0)])
def test_sizes_that_no_image_has_upset_nothing(size: int, score: int) -> None:
    cluster = cluster_of({"a:1": size, "b:1": size}, {"a:1": size, "b:1": size})
    plugin = build_plugin(ImageLocality, cluster)
    pod = make_pod("p").container(image="a:1").container(image="b:1").build()
    assert scores(plugin, pod, cluster) == [score, score]


def test_init_containers_and_image_volumes_count_and_every_use_counts() -> None:
    cluster = cluster_of({"app:1": 400 * MIB, "data:1": 300 * MIB})
    plugin = build_plugin(ImageLocality, cluster)
    init = {"name": "i", "image": "app:1"}
    pod = make_pod("p").image("app:1").spec(initContainers=[init]).volume("d", image={"reference": "data:1"})
    # 400 + 400 + 300 of at most 2000, because volumes do not raise the bounds.
    assert scores(plugin, pod.build(), cluster) == [100 * (1100 - 23) // (2000 - 23)]


def test_the_first_reported_size_of_a_name_counts_for_all_nodes() -> None:
    cluster = cluster_of({"app:1": 400 * MIB}, {"app:1": 900 * MIB})
    plugin = build_plugin(ImageLocality, cluster)
    assert scores(plugin, make_pod("p").image("app:1").build(), cluster) == [38, 38]


def test_a_node_that_comes_or_goes_changes_what_images_count() -> None:
    cluster = cluster_of({"app:1": 400 * MIB})
    plugin = build_plugin(ImageLocality, cluster)
    pod = make_pod("p").image("app:1").build()
    assert scores(plugin, pod, cluster) == [38]
    seen = cluster.table.node_log.position
    cluster.add(make_node("late").build())
    assert cluster.table.node_log.since(seen) is None, "every row must be looked at again"
    assert scores(plugin, pod, cluster) == [18, 0]
    seen = cluster.table.node_log.position
    cluster.remove(make_node("late").build())
    assert cluster.table.node_log.since(seen) is None
    assert scores(plugin, pod, cluster) == [38]


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("app", "app:latest"),
        ("app:1", "app:1"),
        ("registry:5000/app", "registry:5000/app:latest"),
        ("registry:5000/app:2", "registry:5000/app:2"),
        ("app@sha256:0123", "app@sha256:0123"),
    ],
)
def test_images_without_a_tag_are_the_latest(image: str, name: str) -> None:
    assert normal_name(image) == name


def test_pods_with_the_same_images_share_a_shape() -> None:
    plugin = build_plugin(ImageLocality, Cluster())
    one, other = make_pod("a").image("x").build(), make_pod("b").image("x:latest").requests(cpu="1").build()
    assert plugin.shape(one) == plugin.shape(other)
    assert plugin.shape(one) != plugin.shape(make_pod("c").image("y").build())


IMAGES = st.dictionaries(st.sampled_from(["a:1", "b:1", "c:1"]), st.integers(0, 4000 * MIB))


@settings(max_examples=100)
@given(st.lists(IMAGES, min_size=1, max_size=6), st.lists(st.sampled_from("abcd"), max_size=3))
def test_columns_and_single_nodes_agree(held: list[dict[str, int]], wanted: list[str]) -> None:
    cluster = cluster_of(*held)
    plugin = build_plugin(ImageLocality, cluster)
    containers = [{"name": str(number), "image": f"{name}:1"} for number, name in enumerate(wanted)]
    found = scores(plugin, make_pod("p").spec(containers=containers).build(), cluster)
    assert found is not None
    assert all(0 <= score <= 100 for score in found)
