"""Which pods share what is asked of plugins: by template, by shape, or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

import pytest

from stowplan.cluster import IntColumn, NodeRow, Nodes
from stowplan.framework import CycleState, FilterPlugin, Reads, ScorePlugin, Status, unschedulable
from stowplan.framework.normalizing import default_normalize
from stowplan.objects import DeviceClass, Pod
from stowplan.testing.builders import PodBuilder, make_node, make_object, make_pod
from stowplan.testing.deciding import cluster_of, scheduler

asked: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _nobody_was_asked() -> None:
    asked.clear()


class ByTemplate(FilterPlugin):
    reads = Reads.NODE
    shaped_by_template = True

    def shape(self, pod: Pod) -> Hashable:
        asked["template"] += 1
        return pod.spec.tolerations

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        asked["node"] += 1
        return None


class ByLabels(FilterPlugin):
    """Pods go to nodes of their own color."""

    reads = Reads.NODE

    def shape(self, pod: Pod) -> Hashable:
        asked["labels"] += 1
        return pod.labels.get("color")

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        asked["node"] += 1
        wanted = pod.labels.get("color")
        return None if wanted in (None, node.labels.get("color")) else unschedulable(f"is not {wanted}")


class LikesFewPods(ScorePlugin):
    """Is normalised, and depends on what is placed."""

    reads = Reads.NODE | Reads.USAGE

    def score_node(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
        return node.pod_count

    def normalize(self, state: CycleState, pod: Pod, scores: IntColumn, nodes: Nodes) -> IntColumn:
        return default_normalize(scores, reverse=True)


def _pod(number: int, **requests: str) -> PodBuilder:
    return make_pod(f"p{number}").requests(requests)


def test_pods_that_differ_in_requests_alone_are_one_template() -> None:
    core = scheduler(cluster_of(make_node("n").capacity(cpu=64, pods=10)), plugins=[ByTemplate])
    for number in range(1, 6):
        assert core.decide(_pod(number, cpu=f"{number}").build()).node_name == "n"
    assert asked == {"template": 1, "node": 1}
    core.decide(_pod(6, cpu="6").tolerate("gpu").build())
    assert asked == {"template": 2, "node": 2}


def test_plugins_that_look_at_more_are_asked_about_every_shape() -> None:
    nodes = [make_node(color).labels(color=color).capacity(pods=10) for color in ("red", "blue")]
    core = scheduler(cluster_of(*nodes), plugins=[ByLabels])
    for number, color in enumerate(("red", "blue", "red", "blue", "red", "blue")):
        assert core.decide(make_pod(f"p{number}").labels(color=color).build()).node_name == color
    rejected = core.decide(make_pod("p").labels(color="green").build())
    assert rejected.message.startswith("0/2 nodes are available: 2 is not green. ")


def test_what_comes_again_is_remembered() -> None:
    core = scheduler(cluster_of(make_node("n").capacity(pods=10)), plugins=[ByLabels])
    core.decide(make_pod("first").build())
    core.decide(make_pod("second").build())
    assert asked["node"] == 2
    core.decide(make_pod("third").build())
    core.decide(make_pod("fourth").build())
    assert asked["node"] == 2
    assert asked["labels"] == 2, "nor is the plugin asked what a known shape is to it"


def test_a_first_look_normalizes_scores_of_the_nodes_that_fit() -> None:
    cluster = cluster_of(*(make_node(f"n{i}").capacity(cpu=8, pods=2) for i in range(3)))
    for uid, name in enumerate(("n0", "n0", "n1")):
        cluster.add(make_pod(f"there-{uid}").on_node(name).build())
    core = scheduler(cluster, plugins=[LikesFewPods])
    for number in range(1, 4):
        assert core.decide(_pod(number, cpu=f"{number}m").build()).node_name == "n2"


def test_a_new_device_class_makes_every_shape_a_new_one() -> None:
    cluster = cluster_of(make_node("n").capacity(pods=10))
    core = scheduler(cluster, plugins=[ByTemplate])
    core.decide(make_pod("a").build())
    cluster.add(make_object(DeviceClass, "gpu", spec={}))
    core.decide(make_pod("b").build())
    assert asked["template"] == 2
