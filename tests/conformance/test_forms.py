"""Every plugin, asked about all nodes of a case at once, about some, and about one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest

from conformance.cases import family_of, own_files, read_cases
from conformance.product import World
from stowplan.cluster import Nodes
from stowplan.framework import CycleState, FilterPlugin, ScorePlugin, Status
from stowplan.framework.cycle import run_filters, run_pre_filters, run_pre_scores
from stowplan.framework.memory import ask_filter, ask_score
from stowplan.framework.profile import Profile
from stowplan.objects import Pod
from stowplan.plugins import IN_TREE

FAMILIES = {family_of(path): path for path in own_files() if family_of(path) != "requeue"}
CASES = 25
NEVER_ASKED = {"NodeName", "NodeDeclaredFeatures"}
"""No case comes to them: its pods name no node, and need no feature of nodes. Their own tests do."""


def every_other(nodes: Nodes) -> Nodes:
    return nodes.at(np.arange(1, nodes.size, 2))


def statuses(plugin: FilterPlugin, state: CycleState, pod: Pod, nodes: Nodes) -> list[Status | None]:
    verdict = ask_filter(plugin, state, pod, nodes)
    return [verdict.status_of(code) if code else None for code in verdict.codes.tolist()]


def check_filter(plugin: FilterPlugin, state: CycleState, pod: Pod, nodes: Nodes) -> None:
    found = statuses(plugin, state, pod, nodes)
    assert statuses(plugin, state, pod, every_other(nodes)) == found[1::2], plugin.name
    assert [plugin.filter_node(state, pod, node) for node in nodes] == found, plugin.name


def check_score(plugin: ScorePlugin, state: CycleState, pod: Pod, nodes: Nodes) -> None:
    found = ask_score(plugin, state, pod, nodes).tolist()
    assert ask_score(plugin, state, pod, every_other(nodes)).tolist() == found[1::2], plugin.name
    assert [plugin.score_node(state, pod, node) for node in nodes] == found, plugin.name


def check_all(profile: Profile, pod: Pod) -> Iterator[str]:
    """The names of the plugins that had something to say of the pod, once their forms agree."""
    nodes, state = profile.host.cluster.nodes, CycleState()
    if run_pre_filters(profile, state, pod).status is not None:
        return
    for filtering in profile.filters:
        if filtering.name not in state.skipped_filters:
            check_filter(filtering, state, pod, nodes)
            yield filtering.name
    feasible = nodes.where(run_filters(profile, state, pod, nodes)[0] == 0)
    run_pre_scores(profile, state, pod, feasible)
    for scoring in profile.scores:
        if scoring.name not in state.skipped_scores:
            check_score(scoring, state, pod, feasible)
            yield scoring.name


def checked(family: str) -> set[str]:
    names: set[str] = set()
    for case in islice(read_cases(FAMILIES[family]), CASES):
        world = World(case)
        for key in case.pods:
            pod = world.pending(key)
            names.update(check_all(world.scheduler.profiles[pod.spec.scheduler_name], pod))
    return names


@pytest.fixture(scope="module")
def plugins_seen() -> set[str]:
    return set()


@pytest.mark.parametrize("family", FAMILIES)
def test_all_nodes_some_nodes_and_single_nodes_get_the_same_answers(
    family: str, plugins_seen: set[str]
) -> None:
    names = checked(family)
    assert names
    plugins_seen |= names


def test_every_plugin_that_filters_or_scores_was_among_them(plugins_seen: set[str]) -> None:
    if not plugins_seen:
        plugins_seen = set().union(*map(checked, FAMILIES))
    asked = {name for name, plugin in IN_TREE.items() if issubclass(plugin, FilterPlugin | ScorePlugin)}
    assert plugins_seen == asked - NEVER_ASKED
