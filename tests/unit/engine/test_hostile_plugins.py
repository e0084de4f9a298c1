"""A plugin that misbehaves makes an error of the pod it was asked about, and of nothing else."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pytest

from stowplan.cluster import Cluster, IntColumn, NodeRow, Nodes
from stowplan.framework import (
    Code,
    CycleState,
    FilterPlugin,
    Plugin,
    PreFilterPlugin,
    Reads,
    ScorePlugin,
    Status,
    Verdict,
)
from stowplan.framework.contract import PostFilterPlugin, PostFilterResult, PreScorePlugin
from stowplan.framework.decision import Rejections
from stowplan.objects import Pod
from stowplan.testing.builders import make_node, make_pod
from stowplan.testing.deciding import cluster_of as cluster_of_objects
from stowplan.testing.deciding import decide
from tests.unit.engine.profiles import decider

BAD = make_pod("bad").labels(bad="yes").build()
GOOD = make_pod("good").build()


def is_bad(pod: Pod) -> bool:
    return "bad" in pod.labels


class Raises(FilterPlugin):
    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        if is_bad(pod):
            raise RuntimeError("the disk is on fire")
        return Verdict.passes(len(nodes))


class RaisesNoException(FilterPlugin):
    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        if is_bad(pod):
            raise asyncio.CancelledError
        return Verdict.passes(len(nodes))


class RaisesPerNode(FilterPlugin):
    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        if is_bad(pod) and node.name == "n3":
            raise RuntimeError("the disk is on fire")
        return None


class RemembersAndRaises(RaisesPerNode):
    reads = Reads.NODE | Reads.USAGE


class ReturnsError(FilterPlugin):
    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        return Status(Code.ERROR, ("the disk is on fire",)) if is_bad(pod) else None


class WrongLength(FilterPlugin):
    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        return Verdict.passes(2 if is_bad(pod) else len(nodes))


class NotAVerdict(FilterPlugin):
    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
        return [True] * len(nodes) if is_bad(pod) else Verdict.passes(len(nodes))


class NotAStatus(FilterPlugin):
    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Any:
        return "no" if is_bad(pod) else None


class ChangesAListItLoopsOver(FilterPlugin):
    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        if is_bad(pod):
            seen = {0: node.name}
            for number in seen:
                seen[number + 1] = node.name
        return None


class ScoresTooHigh(ScorePlugin):
    def score_node(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
        return 101 if is_bad(pod) else 1


class RemembersScoresTooLow(ScorePlugin):
    reads = Reads.NODE

    def score_node(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
        return -1 if is_bad(pod) else 1


class ScoresFloats(ScorePlugin):
    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
        return np.ones(len(nodes)) if is_bad(pod) else 1


class ScoresTooFew(ScorePlugin):
    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntColumn | int:
        return np.zeros(1, np.int64) if is_bad(pod) else 1


class NormalizesToNothing(ScorePlugin):
    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntColumn | int:
        return 1

    def normalize(self, state: CycleState, pod: Pod, scores: IntColumn, nodes: Nodes) -> Any:
        return None if is_bad(pod) else scores


class PreFilterSaysWait(PreFilterPlugin):
    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        return Status(Code.WAIT, ("a minute",)) if is_bad(pod) else None


class PreScoreRejects(PreScorePlugin):
    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        return Status(Code.UNSCHEDULABLE, ("too late",)) if is_bad(pod) else None


class ShapeRaises(FilterPlugin):
    reads = Reads.NODE

    def shape(self, pod: Pod) -> Any:
        if is_bad(pod):
            raise KeyError("shape")
        return 0

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        return Verdict.passes(len(nodes))


class ShapeUnhashable(ShapeRaises):
    def shape(self, pod: Pod) -> Any:
        return {} if is_bad(pod) else 0


class ConcernsRaises(RaisesPerNode):
    def concerns(self, pod: Pod) -> bool:
        if is_bad(pod):
            raise KeyError("concerns")
        return False


HOSTILE = [
    Raises,
    RaisesNoException,
    RaisesPerNode,
    RemembersAndRaises,
    ReturnsError,
    WrongLength,
    NotAVerdict,
    NotAStatus,
    ChangesAListItLoopsOver,
    ScoresTooHigh,
    RemembersScoresTooLow,
    ScoresFloats,
    ScoresTooFew,
    NormalizesToNothing,
    PreFilterSaysWait,
    PreScoreRejects,
    ShapeRaises,
    ShapeUnhashable,
    ConcernsRaises,
]


def cluster_of(size: int) -> Cluster:
    cluster = Cluster()
    for i in range(size):
        cluster.add(make_node(f"n{i}").capacity(cpu=4, memory="8Gi", pods=10).build())
    return cluster


@pytest.mark.parametrize("plugin", HOSTILE)
def test_its_pod_gets_an_error_that_names_the_plugin_and_other_pods_go_on(plugin: type[Plugin]) -> None:
    cluster = cluster_of(8)
    decide = decider(cluster, plugin).decide
    for _ in range(2):
        failed = decide(BAD)
        assert failed.node_name is None
        assert failed.status is not None and failed.status.code is Code.ERROR
        assert plugin.name in failed.message
        placed = decide(GOOD)
        assert placed.node_name is not None
    assert not cluster.pods and not cluster.in_trial


class BreaksOnOneRow(FilterPlugin):
    reads = Reads.USAGE

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        if node.pod_count == 1:
            raise RuntimeError("one is a bad number")
        return None


def test_a_plugin_that_failed_on_a_changed_row_is_asked_about_it_again() -> None:
    cluster = cluster_of(8)
    decide = decider(cluster, BreaksOnOneRow).decide
    assert decide(GOOD).node_name
    cluster.assume(make_pod("a").build(), "n5")
    for _ in range(2):
        assert "one is a bad number" in decide(GOOD).message
    cluster.assume(make_pod("b").build(), "n5")
    assert decide(GOOD).node_name


class FewNodes(FilterPlugin):
    """The pod's label says how many nodes it can go to."""

    reads = Reads.NODE

    def shape(self, pod: Pod) -> str:
        return pod.labels["nodes"]

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        return None if node.row < int(pod.labels["nodes"]) else Status(Code.UNSCHEDULABLE, ("no",))


class RemembersAndFailsPreScore(PreScorePlugin, ScorePlugin):
    reads = Reads.NODE

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        raise ValueError("no scales")

    def score_node(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
        raise AssertionError("must not be asked")


def test_a_failing_pre_score_matters_only_where_there_is_something_to_score() -> None:
    decide = decider(cluster_of(3), FewNodes, RemembersAndFailsPreScore).decide
    nowhere, one, many = (make_pod(f"to-{n}").labels(nodes=str(n)).build() for n in range(3))
    for _ in range(3):
        assert decide(nowhere).message == "0/3 nodes are available: 3 no."
        assert decide(one).node_name == "n0"
        assert decide(many).message == 'running PreScore plugin "RemembersAndFailsPreScore": no scales'


class RejectsAll(FilterPlugin):
    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        return Status(Code.UNSCHEDULABLE, ("no",))


class FailsToMakeRoom(PostFilterPlugin):
    def post_filter(self, state: CycleState, pod: Pod, rejections: Rejections) -> PostFilterResult:
        raise RuntimeError("no crane")


def test_a_failing_post_filter_is_an_error_that_names_it() -> None:
    decision = decider(cluster_of(3), RejectsAll, FailsToMakeRoom).decide(GOOD)
    assert decision.status is not None and decision.status.code is Code.ERROR
    assert decision.message == 'running PostFilter plugin "FailsToMakeRoom": RuntimeError: no crane'


def test_a_profile_without_a_plugins_pre_filter_harms_only_pods_that_the_plugin_looks_at() -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"preFilter": {"disabled": [{"name": "VolumeRestrictions"}]}}}],
    }
    cluster = cluster_of_objects(make_node("n").capacity(cpu=1, pods=10))
    disk = [{"name": "v", "gcePersistentDisk": {"pdName": "disk"}}]
    assert decide(cluster, make_pod("p"), config=json.dumps(config)).node_name == "n"
    assert decide(cluster, make_pod("q").spec(volumes=disk), config=json.dumps(config)).message == (
        'running "VolumeRestrictions" filter plugin: KeyError: "nothing is noted as '
        "<class 'stowplan.plugins.volumes.restrictions._State'>: the profile may lack PreFilter or PreScore "
        'of the plugin"'
    )
