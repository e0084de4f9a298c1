"""What is remembered of scores."""

from __future__ import annotations

from stowplan.cluster import Cluster, IntColumn, NodeRow, Nodes
from stowplan.framework import CycleState, Reads, ScorePlugin
from stowplan.framework.memory import ScoreMemory
from stowplan.objects import Pod
from stowplan.testing.builders import make_node, make_pod
from stowplan.testing.plugins import build_plugin


class BySize(ScorePlugin):
    """Is normalised, so it matters whether all nodes score the same."""

    reads = Reads.NODE

    def score_node(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
        return node.allocatable("cpu")

    def normalize(self, state: CycleState, pod: Pod, scores: IntColumn, nodes: Nodes) -> IntColumn:
        return scores // 1000


def _resize(cluster: Cluster, rows: range, cpu: int) -> None:
    for row in rows:
        cluster.put_node(make_node(f"n{row}").capacity(cpu=cpu).build())


def test_it_is_known_whether_all_nodes_score_the_same() -> None:
    cluster = Cluster()
    _resize(cluster, range(20), cpu=4)
    memory = ScoreMemory(build_plugin(BySize, cluster), cluster, CycleState(), make_pod("p").build())

    def uniform() -> bool:
        memory.refresh()
        return memory.uniform

    assert uniform()
    _resize(cluster, range(8), cpu=8)
    assert not uniform(), "many changed together, the first row among them, but not all"
    assert memory.column.tolist() == [8000] * 8 + [4000] * 12
    _resize(cluster, range(20), cpu=8)
    assert uniform()
    _resize(cluster, range(3, 4), cpu=2)
    assert not uniform()


def test_a_new_node_that_scores_nothing_is_not_like_all_the_others() -> None:
    cluster = Cluster()
    _resize(cluster, range(20), cpu=4)
    memory = ScoreMemory(build_plugin(BySize, cluster), cluster, CycleState(), make_pod("p").build())
    memory.refresh()
    _resize(cluster, range(20, 21), cpu=0)
    memory.refresh()
    assert memory.column.tolist() == [4000] * 20 + [0]
    assert not memory.uniform


def test_scores_that_are_not_normalised_are_never_uniform() -> None:
    class Fixed(ScorePlugin):
        reads = Reads.NODE

        def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> int:
            return 7

    cluster = Cluster()
    _resize(cluster, range(3), cpu=4)
    memory = ScoreMemory(build_plugin(Fixed, cluster), cluster, CycleState(), make_pod("p").build())
    memory.refresh()
    assert not memory.uniform
