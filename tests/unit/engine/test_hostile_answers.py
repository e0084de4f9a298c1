"""Answers of the wrong type make an error of the pod that was asked about, whenever they are looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stowplan.cluster import Cluster, NodeRow, Nodes
from stowplan.engine.explain import explain
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
from stowplan.framework.contract import Narrow, PostFilterPlugin, PostFilterResult, PreScorePlugin
from stowplan.framework.decision import Rejections
from stowplan.objects import Pod
from stowplan.testing.builders import make_node, make_pod
from tests.unit.engine.profiles import decider

BAD = make_pod("bad").labels(bad="yes").priority(5).build()
GOOD = make_pod("good").build()
NO = Status(Code.UNSCHEDULABLE, ("no",))


def is_bad(pod: Pod) -> bool:
    return "bad" in pod.labels


def cluster_of(size: int) -> Cluster:
    cluster = Cluster()
    for i in range(size):
        cluster.add(make_node(f"n{i}").capacity(cpu=4, memory="8Gi", pods=10).build())
    return cluster


def must_fail(plugin: type[Plugin], *others: type[Plugin]) -> str:
    """Decides a bad pod and a good one, before and after a node has changed; returns what the error says."""
    cluster = cluster_of(20)
    core = decider(cluster, plugin, *others)
    message = ""
    for number in range(3):
        assert core.decide(GOOD).node_name is not None
        failed = core.decide(BAD)
        assert failed.status is not None and failed.status.code is Code.ERROR, failed
        assert f'"{plugin.name}"' in failed.message
        assert explain(core.profile, BAD).error
        cluster.assume(make_pod(f"other-{number}").build(), "n3")
        message = failed.message
    assert not cluster.in_trial
    return message


@pytest.mark.parametrize("reads", [Reads.CLUSTER, Reads.USAGE], ids=["asked always", "remembered"])
@pytest.mark.parametrize("normalized", [False, True], ids=["as it is", "normalized"])
@pytest.mark.parametrize("wrong", [None, 1.5, "1", True, 2**70, float("nan")])
def test_a_score_of_a_node_that_is_no_whole_number(reads: Reads, normalized: bool, wrong: Any) -> None:
    class Scores(ScorePlugin):
        def score_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Any:
            return wrong if is_bad(pod) else 1

    class Normalizes(Scores):
        def normalize(self, state: CycleState, pod: Pod, scores: Any, nodes: Nodes) -> Any:
            return scores

    plugin = Normalizes if normalized else Scores
    plugin.reads = reads
    assert "a score must be an int of 64 bits" in must_fail(plugin)


@pytest.mark.parametrize("wrong", [None, 1.5, 2**70])
def test_a_score_of_a_node_that_has_changed_and_is_no_whole_number(wrong: Any) -> None:
    class Scores(ScorePlugin):
        reads = Reads.USAGE

        def score_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Any:
            return wrong if node.pod_count else 1

    cluster = cluster_of(20)
    core = decider(cluster, Scores)
    for _ in range(2):
        assert core.decide(GOOD).node_name
    cluster.assume(make_pod("other").build(), "n3")
    assert "a score must be an int of 64 bits" in core.decide(GOOD).message
    cluster.forget("default/other")
    assert core.decide(GOOD).node_name


@pytest.mark.parametrize("reads", [Reads.CLUSTER, Reads.NODE], ids=["asked always", "remembered"])
@pytest.mark.parametrize("meaning", [KeyError, None, "no", Status(Code.SUCCESS), Status(Code.ERROR, ("x",))])
def test_a_verdict_whose_codes_mean_nothing(reads: Reads, meaning: Any) -> None:
    def status_of(code: int) -> Any:
        if meaning is KeyError:
            raise KeyError(code)
        return meaning

    class Rejects(FilterPlugin):
        def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
            return Verdict(np.full(len(nodes), int(is_bad(pod))), status_of)

    Rejects.reads = reads
    must_fail(Rejects)


@pytest.mark.parametrize("reasons", ["no", ["no"], (1,), None])
def test_a_status_whose_reasons_are_no_texts(reasons: Any) -> None:
    class Rejects(FilterPlugin):
        def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
            return Status(Code.UNSCHEDULABLE, reasons) if is_bad(pod) else None

    assert "the reasons of a Status must be a tuple of texts" in must_fail(Rejects)


@pytest.mark.parametrize("normalized", [False, True], ids=["as it is", "normalized"])
@pytest.mark.parametrize(
    "wrong",
    [
        lambda size: np.ma.masked_array(np.ones(size, np.int64), mask=True),
        lambda size: np.uint64(2**64 - 1),
        lambda size: 2**64,
        lambda size: [1] * size,
        lambda size: np.ones(size, ">i8"),
    ],
    ids=["masked", "wraps around", "too large", "a list", "other byte order"],
)
def test_a_column_of_scores_that_does_not_hold_what_it_shows(wrong: Any, normalized: bool) -> None:
    class Scores(ScorePlugin):
        def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
            return wrong(len(nodes)) if is_bad(pod) else 1

    class Normalizes(ScorePlugin):
        def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
            return 1

        def normalize(self, state: CycleState, pod: Pod, scores: Any, nodes: Nodes) -> Any:
            return wrong(len(nodes)) if is_bad(pod) else scores

    must_fail(Normalizes if normalized else Scores)


def test_codes_that_are_masked() -> None:
    class Rejects(FilterPlugin):
        def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
            codes = np.zeros(len(nodes), np.int64)
            return Verdict(np.ma.masked_array(codes, mask=True) if is_bad(pod) else codes, lambda code: NO)

    assert "filter must return 20 int64 codes, got MaskedArray" in must_fail(Rejects)


@pytest.mark.parametrize(
    "answer",
    [
        "no",
        1,
        Narrow(["n1"]),  # type: ignore[arg-type]
        Narrow(None),  # type: ignore[arg-type]
        Narrow([{}]),  # type: ignore[arg-type]
        Status(Code.UNSCHEDULABLE, None),  # type: ignore[arg-type]
        Status(Code.UNSCHEDULABLE, ("no",), 7),  # type: ignore[arg-type]
        Status(2, ("no",)),  # type: ignore[arg-type]
    ],
)
def test_a_pre_filter_that_answers_nonsense(answer: Any) -> None:
    class Looks(PreFilterPlugin):
        def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
            return answer if is_bad(pod) else None

    must_fail(Looks)


@pytest.mark.parametrize("reads", [Reads.CLUSTER, Reads.NODE], ids=["asked always", "remembered"])
def test_a_pre_filter_may_say_why_it_skips(reads: Reads) -> None:
    class Skips(PreFilterPlugin):
        def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status:
            return Status(Code.SKIP, ("nothing to look at",))

    Skips.reads = reads
    core = decider(cluster_of(3), Skips)
    assert core.decide(GOOD).node_name
    assert explain(core.profile, GOOD).prefilter is None


def test_a_pre_score_that_answers_nonsense() -> None:
    class Looks(PreScorePlugin):
        def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
            return "no" if is_bad(pod) else None

    must_fail(Looks)


@pytest.mark.parametrize("answer", [KeyError, "no", NO])
def test_a_pre_filter_that_cannot_tell_what_a_nominated_pod_changes(answer: Any) -> None:
    class Looks(PreFilterPlugin):
        def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> None:
            return None

        def add_pod(self, state: CycleState, pod: Pod, other: Pod, node: NodeRow) -> Any:
            if answer is KeyError:
                raise KeyError(other.name)
            return answer if is_bad(pod) else None

    cluster = cluster_of(3)
    cluster.nominations.add(make_pod("promised").priority(5).build(), "n1")
    core = decider(cluster, Looks)
    if answer is not KeyError:
        assert core.decide(GOOD).node_name
    failed = core.decide(BAD)
    assert failed.status is not None and failed.status.code is Code.ERROR
    assert 'running PreFilter plugin "Looks"' in failed.message
    assert not cluster.pods and not cluster.in_trial


class TakesNoBad(FilterPlugin):
    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        return NO if is_bad(pod) else None


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "n1",
        PostFilterResult("no"),  # type: ignore[arg-type]
        PostFilterResult(None, 7),  # type: ignore[arg-type]
        PostFilterResult(None, "n1", ("a",)),  # type: ignore[arg-type]
        PostFilterResult(None, "n1", None),  # type: ignore[arg-type]
    ],
)
def test_a_post_filter_that_answers_nonsense(answer: Any) -> None:
    class MakesRoom(PostFilterPlugin):
        def post_filter(self, state: CycleState, pod: Pod, rejections: Rejections) -> PostFilterResult:
            result: PostFilterResult = answer
            return result

    core = decider(cluster_of(3), TakesNoBad, MakesRoom)
    failed = core.decide(BAD)
    assert failed.status is not None and failed.status.code is Code.ERROR
    assert 'running PostFilter plugin "MakesRoom"' in failed.message
    assert not failed.victims and not failed.nominated_node
    assert core.decide(GOOD).node_name
