"""Prefers nodes with little CPU, to keep the large ones free for pods that need them."""

from __future__ import annotations

from stowplan.cluster import IntColumn, NodeRow, Nodes
from stowplan.framework import CycleState, Reads, ScorePlugin, default_normalize
from stowplan.objects import Pod


class SmallestNode(ScorePlugin):
    """Scores a node by its CPU; normalising turns that around, so that the smallest gets the most."""

    reads = Reads.NODE

    def shape(self, pod: Pod) -> None:
        """The answer is the same for every pod: all shapes share one remembered column."""

    def score_node(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
        return node.allocatable("cpu")

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntColumn:
        return nodes.allocatable("cpu")

    def normalize(self, state: CycleState, pod: Pod, scores: IntColumn, nodes: Nodes) -> IntColumn:
        return default_normalize(scores, reverse=True)
