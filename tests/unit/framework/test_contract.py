"""What the contract itself gives to a plugin's author: names and states."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

import stowplan.framework
from stowplan.cluster import NodeRow, Nodes
from stowplan.framework import (
    CycleState,
    FilterPlugin,
    PreFilterPlugin,
    Status,
    unschedulable,
)
from stowplan.framework.contract import PostFilterResult, Preflight, Wait
from stowplan.framework.decision import Rejections
from stowplan.framework.points import POINTS
from stowplan.framework.status import error
from stowplan.objects import Pod
from stowplan.testing.builders import make_node, make_pod
from stowplan.testing.deciding import cluster_of, decide


def test_everything_that_a_plugin_derives_from_or_answers_is_exported() -> None:
    needed = {*(base.__name__ for base in POINTS.values()), Rejections.__name__}
    needed |= {answer.__name__ for answer in (PostFilterResult, Preflight, Wait, error)}
    assert needed <= set(stowplan.framework.__all__)
    assert all(hasattr(stowplan.framework, name) for name in needed)


class Place:
    """Knows how it is cloned."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = taken

    def clone(self) -> Place:
        return Place(set(self.taken))


def test_a_trial_may_change_its_copy_of_a_state() -> None:
    noted: dict[str, Any] = {
        "dict": {"n": 1},
        "counter": Counter(n=1),
        "list": ["n"],
        "set": {"n"},
        "array": np.array([1]),
    }
    state = CycleState(noted)
    state["place"] = Place({"n"})
    twin = state.clone()
    twin["dict"]["n"] = twin["counter"]["n"] = twin["array"][0] = 2
    twin["list"].clear()
    twin["set"].clear()
    twin["place"].taken.clear()
    assert (state["dict"], state["counter"], state["array"].tolist()) == ({"n": 1}, Counter(n=1), [1])
    assert (state["list"], state["set"], state["place"].taken) == (["n"], {"n"}, {"n"})
    assert type(twin["counter"]) is Counter


def test_what_only_its_plugin_understands_is_shared() -> None:
    index = object()
    assert CycleState({"index": index}).clone()["index"] is index


class OnePerTeam(PreFilterPlugin, FilterPlugin):
    """A node takes one pod of a team."""

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> None:
        team = pod.labels["team"]
        state[self] = {node.name: sum(one.labels.get("team") == team for one in node.pods) for node in nodes}

    def remove_pod(self, state: CycleState, pod: Pod, other: Pod, node: NodeRow) -> None:
        state[self][node.name] -= other.labels.get("team") == pod.labels["team"]

    def add_pod(self, state: CycleState, pod: Pod, other: Pod, node: NodeRow) -> None:
        state[self][node.name] += other.labels.get("team") == pod.labels["team"]

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        return unschedulable("node(s) had one of the team") if state[self][node.name] else None


def test_what_a_plugin_counts_in_a_dict_is_right_after_preemption_has_tried_every_node() -> None:
    cluster = cluster_of(*(make_node(f"n{number}").capacity(cpu=4, pods=10) for number in range(3)))
    for number in range(3):
        cluster.add(make_pod(f"placed-{number}").labels(team="a").on_node(f"n{number}").build())
    decision = decide(cluster, make_pod("p").labels(team="a").priority(5), plugins=[OnePerTeam])
    assert len(decision.victims) == 1
    (counted,) = [noted for key, noted in decision.state.items() if isinstance(key, OnePerTeam)]
    assert counted == {"n0": 1, "n1": 1, "n2": 1}
