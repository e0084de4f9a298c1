"""Asking plugins afresh, without memory: PreFilter in order, Filter on some nodes or one, Score.

Explanations, trials (preemption, nominated pods) and narrowed searches go this way. What it says must
equal what remembered answers say; a property test holds both against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from stowplan.cluster import IntColumn, NodeRow, Nodes
from stowplan.cluster.columns import read_only
from stowplan.framework.asking import NO_CONCERN, PreFilterAnswer, ask_pre_filter, ask_pre_score, ask_shape
from stowplan.framework.contract import SKIP, CycleState, Narrow, PreFilterPlugin, ScorePlugin
from stowplan.framework.failure import failed
from stowplan.framework.memory import as_column, ask_filter, ask_filter_node, ask_score, check_range
from stowplan.framework.profile import Profile
from stowplan.framework.status import Code, Status, checked_status, unresolvable
from stowplan.framework.verdict import Verdict
from stowplan.objects import Pod


@dataclass
class PreFilterOutcome:
    """What all PreFilter plugins together said."""

    status: Status | None = None
    """The rejection, None when the pod may be tried on nodes."""
    names: frozenset[str] | None = None
    """The nodes to look at, None for all."""
    narrowing: frozenset[str] = frozenset()
    """The plugins that narrowed the search."""

    @property
    def absent(self) -> Status | None:
        """The status of the nodes that are not looked at."""
        if self.status is not None:
            return self.status
        if self.names is None:
            return None
        return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self.narrowing))}]")


def merge_pre_filters(answers: Iterable[tuple[str, PreFilterAnswer]]) -> PreFilterOutcome:
    """Upstream's rules: the first unresolvable rejection ends it and nothing said before counts, of other
    rejections the last counts, and the nodes that plugins narrowed to are intersected."""
    outcome = PreFilterOutcome()
    for name, answer in answers:
        if isinstance(answer, Narrow):
            outcome.names = answer.names if outcome.names is None else outcome.names & answer.names
            outcome.narrowing |= {name}
            if not outcome.names:
                outcome.status = _nothing_left(outcome.narrowing)
                return outcome
        elif answer is not None and answer != SKIP:
            outcome.status = answer.by(name)
            if answer.code is Code.UNRESOLVABLE:
                outcome.narrowing = frozenset()
                return outcome
    return outcome


def _nothing_left(narrowing: frozenset[str]) -> Status:
    names = sorted(narrowing)
    if len(names) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {names[0]}")
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously")


def run_pre_filters(profile: Profile, state: CycleState, pod: Pod) -> PreFilterOutcome:
    """All PreFilter plugins, in order."""
    nodes = profile.host.cluster.nodes
    concerned = {name for name, plugin in profile.plugins.items() if ask_shape(plugin, pod) is not NO_CONCERN}
    state.skipped_filters |= profile.plugins.keys() - concerned
    state.skipped_scores |= profile.plugins.keys() - concerned

    def answers() -> Iterable[tuple[str, PreFilterAnswer]]:
        for plugin in profile.pre_filters:
            if plugin.name in concerned:
                answer = ask_pre_filter(plugin, state, pod, nodes)
                if answer == SKIP:
                    state.skipped_filters.add(plugin.name)
                yield plugin.name, answer

    return merge_pre_filters(answers())


def run_filters(
    profile: Profile, state: CycleState, pod: Pod, nodes: Nodes
) -> tuple[IntColumn, list[tuple[str, Verdict]]]:
    """For these nodes the number (from 1) of the first rejecting filter, 0 where all pass, and what each
    filter said. Filters further down are not asked about nodes that are out already."""
    rejected_by = np.zeros(nodes.size, np.int64)
    verdicts = []
    for number, plugin in enumerate(profile.filters, 1):
        verdict = Verdict.passes(nodes.size)
        if plugin.name not in state.skipped_filters:
            left = np.flatnonzero(rejected_by == 0)
            if left.size:
                asked = ask_filter(plugin, state, pod, nodes if left.size == nodes.size else nodes.at(left))
                codes = np.zeros(nodes.size, np.int64)
                codes[left] = asked.codes
                rejected_by[codes != 0] = number
                verdict = Verdict(codes, asked.status_of)
        verdicts.append((plugin.name, verdict))
    return rejected_by, verdicts


def run_filters_on(profile: Profile, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
    """One node: the status of the first filter that rejects it, None when all pass."""
    for plugin in profile.filters:
        if plugin.name not in state.skipped_filters:
            status = ask_filter_node(plugin, state, pod, node)
            if status is not None:
                return status.by(plugin.name)
    return None


def run_with_nominated(profile: Profile, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
    """One node, as if the pods nominated to it were there already, and as if they were not: it must take
    the pod both ways, because they may come, or may not."""
    cluster = profile.host.cluster
    nominated = cluster.nominations.counting_against(pod, node.name)
    if nominated:
        with cluster.trial():
            trial_state = state.clone()
            for other in nominated:
                placed = other.placed_on(node.name)
                cluster.put_pod(placed)
                tell_added(profile, trial_state, pod, placed, node)
            status = run_filters_on(profile, trial_state, pod, node)
        if status is not None:
            return status
    return run_filters_on(profile, state, pod, node)


def tell_added(profile: Profile, state: CycleState, pod: Pod, other: Pod, node: NodeRow) -> None:
    """Lets PreFilter plugins know that `other` was added to the node, in a trial."""
    for plugin in profile.pre_filters:
        if plugin.name not in state.skipped_filters:
            _tell(plugin, plugin.add_pod, state, pod, other, node)


def tell_removed(profile: Profile, state: CycleState, pod: Pod, other: Pod, node: NodeRow) -> None:
    """Lets PreFilter plugins know that `other` was removed from the node, in a trial."""
    for plugin in profile.pre_filters:
        if plugin.name not in state.skipped_filters:
            _tell(plugin, plugin.remove_pod, state, pod, other, node)


def _tell(
    plugin: PreFilterPlugin,
    method: Callable[[CycleState, Pod, Pod, NodeRow], Status | None],
    state: CycleState,
    pod: Pod,
    other: Pod,
    node: NodeRow,
) -> None:
    try:
        checked_status(method(state, pod, other, node), ())
    except BaseException as problem:
        raise failed(plugin.name, "preFilter", problem) from problem


def run_pre_scores(profile: Profile, state: CycleState, pod: Pod, nodes: Nodes) -> None:
    """All PreScore plugins, in order."""
    for plugin in profile.pre_scores:
        if plugin.name not in state.skipped_scores and ask_pre_score(plugin, state, pod, nodes):
            state.skipped_scores.add(plugin.name)


def run_score(plugin: ScorePlugin, state: CycleState, pod: Pod, nodes: Nodes) -> tuple[IntColumn, IntColumn]:
    """One plugin's scores: as it gave them, and normalised."""
    raw = ask_score(plugin, state, pod, nodes)
    return raw, run_normalize(plugin, state, pod, raw, nodes)


def run_normalize(
    plugin: ScorePlugin, state: CycleState, pod: Pod, raw: IntColumn, nodes: Nodes
) -> IntColumn:
    """Scores of the nodes that can take the pod, brought to 0 to 100 and checked. `raw` may be remembered, so
    the plugin may not write into it."""
    try:
        scores = as_column(plugin.normalize(state, pod, read_only(raw), nodes), nodes.size, "normalize")
    except BaseException as problem:
        raise failed(plugin.name, "normalize", problem) from problem
    check_range(plugin, scores)
    return scores
