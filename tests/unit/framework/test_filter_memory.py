"""What is remembered of a filter's answers keeps its meaning while rows and answers come and go."""

from __future__ import annotations

from stowplan.cluster import Cluster, NodeRow, Nodes
from stowplan.framework import CycleState, FilterPlugin, Reads, Status, Verdict, unschedulable
from stowplan.framework.memory import FilterMemory
from stowplan.objects import Pod
from stowplan.testing.builders import make_node, make_pod
from stowplan.testing.plugins import build_plugin


class Colored(FilterPlugin):
    """Rejects nodes by their color; both forms number the reasons in their own way."""

    reads = Reads.NODE

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        color = node.labels.get("color")
        return unschedulable(f"is {color}") if color else None

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        return Verdict.of([self.filter_node(state, pod, node) for node in nodes])


def _memory(cluster: Cluster) -> FilterMemory:
    return FilterMemory(build_plugin(Colored, cluster), cluster, CycleState(), make_pod("p").build())


def _paint(cluster: Cluster, name: str, color: str | None) -> None:
    node = make_node(name).labels({"color": color} if color else {})
    cluster.put_node(node.build())


def _reasons(verdict: Verdict) -> list[str | None]:
    return [verdict.status_of(code).message if code else None for code in verdict.codes.tolist()]


def test_a_row_that_comes_back_does_not_find_its_old_code() -> None:
    """The code was a number of a verdict in columns that has been replaced since."""
    cluster = Cluster()
    memory = _memory(cluster)
    for name in ("a", "b", "c"):
        _paint(cluster, name, "red" if name == "c" else None)
    memory.refresh()
    cluster.remove_node("c")
    cluster.table.node_log.invalidate()
    memory.refresh()
    _paint(cluster, "c", "blue")
    memory.refresh()
    assert _reasons(memory.verdict()) == [None, None, "is blue"]


def test_a_verdict_handed_out_keeps_its_meaning() -> None:
    cluster = Cluster()
    memory = _memory(cluster)
    for name in ("a", "b", "c"):
        _paint(cluster, name, "red" if name == "a" else None)
    memory.refresh()
    _paint(cluster, "b", "green")
    memory.refresh()
    before = memory.verdict()
    _paint(cluster, "a", "blue")
    cluster.table.node_log.invalidate()
    memory.refresh()
    assert _reasons(before) == ["is red", "is green", None]
    assert _reasons(memory.verdict()) == ["is blue", "is green", None]
