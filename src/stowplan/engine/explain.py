"""The full account of a decision: every plugin about every node, asked afresh."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stowplan.cluster import Nodes
from stowplan.engine.decide import (
    look_at_nodes,
    nodes_wanted,
    prefilter_rejections,
    promised_row_that_fits,
)
from stowplan.engine.trace import PluginScore, Trace
from stowplan.framework.contract import CycleState, PreScorePlugin
from stowplan.framework.cycle import PreFilterOutcome, run_pre_filters, run_pre_scores, run_score
from stowplan.framework.decision import NO_NODES, Rejections
from stowplan.framework.failure import PluginError, failed
from stowplan.framework.profile import Profile
from stowplan.framework.status import Code, Status, checked_status
from stowplan.framework.trace import PreemptionTrace, TracesAllocations, TracesPreemption
from stowplan.objects import Pod


def explain(profile: Profile, pod: Pod) -> Trace:
    """What every plugin says of every node for this pod, now. Changes nothing."""
    try:
        return replace(_explain(profile, pod), held_back=held_back(profile, pod))
    except PluginError as failure:
        return Trace(pod=pod.key, error=str(failure), message=str(failure))


def held_back(profile: Profile, pod: Pod) -> Status | None:
    """Why the pod may not even be tried, if so: the first PreEnqueue plugin that keeps it out."""
    for plugin in profile.pre_enqueue:
        try:
            status = checked_status(plugin.pre_enqueue(pod))
        except BaseException as problem:
            raise failed(plugin.name, "preEnqueue", problem) from problem
        if status is not None and status.code is not Code.SUCCESS:
            return status.by(plugin.name)
    return None


def _explain(profile: Profile, pod: Pod) -> Trace:
    cluster = profile.host.cluster
    if not cluster.table.size:
        return Trace(pod=pod.key, message=NO_NODES)
    state = CycleState()
    outcome = run_pre_filters(profile, state, pod)
    if outcome.status is not None:
        rejections = prefilter_rejections(profile, outcome)
        return _no_node(profile, state, pod, outcome, rejections)
    promised = promised_row_that_fits(profile, state, pod)
    nodes, rejections = look_at_nodes(profile, state, pod, outcome)
    if not nodes.size:
        return _no_node(profile, state, pod, outcome, rejections)
    scores, totals = _scores(profile, state, pod, nodes)
    best = max(totals.values())
    wanted = nodes_wanted(profile) if profile.percentage_of_nodes_to_score and outcome.names is None else 0
    return Trace(
        pod=pod.key,
        narrowed=_narrowed(profile, outcome),
        rejected=_rejected(rejections),
        feasible=tuple(sorted(nodes.names)),
        scores=scores,
        totals=totals,
        best=tuple(sorted(name for name, total in totals.items() if total == best)),
        promised="" if promised is None else cluster.table.nodes[promised].name,
        search_ends_after=wanted if wanted < nodes.size else 0,
        allocations=_allocations(profile, state, pod, nodes),
    )


def _no_node(
    profile: Profile, state: CycleState, pod: Pod, outcome: PreFilterOutcome, rejections: Rejections
) -> Trace:
    return Trace(
        pod=pod.key,
        prefilter=outcome.status,
        narrowed=_narrowed(profile, outcome),
        rejected=_rejected(rejections),
        message=rejections.message,
        unschedulable_plugins=tuple(sorted(rejections.plugins)),
        preemption=_preemption(profile, state, pod, rejections),
    )


def _narrowed(profile: Profile, outcome: PreFilterOutcome) -> tuple[str, ...] | None:
    if outcome.names is None or outcome.status is not None:
        return None
    return tuple(sorted(name for name in outcome.names if profile.host.cluster.row_of(name) is not None))


def _rejected(rejections: Rejections) -> dict[str, Status]:
    """The status of each node that was looked at and turned down, by name."""
    nodes = rejections.cluster.table.nodes
    rows = np.flatnonzero(rejections.rejected_by).tolist()
    found = {nodes[row].name: status for row in rows if (status := rejections.status_of_row(row))}
    return {name: found[name] for name in sorted(found)}


def _scores(
    profile: Profile, state: CycleState, pod: Pod, nodes: Nodes
) -> tuple[dict[str, dict[str, PluginScore]], dict[str, int]]:
    run_pre_scores(profile, state, pod, nodes)
    names = nodes.names
    scores: dict[str, dict[str, PluginScore]] = {name: {} for name in names}
    for plugin in profile.scores:
        if plugin.name not in state.skipped_scores:
            raw, normalized = run_score(plugin, state, pod, nodes)
        elif isinstance(plugin, PreScorePlugin):
            continue
        else:  # without PreScore nothing is skipped: a plugin that is not concerned says 0
            raw = normalized = np.zeros(nodes.size, np.int64)
        weight = profile.weights[plugin.name]
        for name, before, after in zip(names, raw.tolist(), normalized.tolist(), strict=True):
            scores[name][plugin.name] = PluginScore(before, after, after * weight)
    totals = {name: sum(score.weighted for score in row.values()) for name, row in scores.items()}
    return scores, totals


def _preemption(
    profile: Profile, state: CycleState, pod: Pod, rejections: Rejections
) -> PreemptionTrace | None:
    for plugin in profile.post_filters:
        if isinstance(plugin, TracesPreemption):
            try:
                return plugin.trace_preemption(state, pod, rejections)
            except BaseException as problem:
                raise failed(plugin.name, "postFilter", problem) from problem
    return None


def _allocations(
    profile: Profile, state: CycleState, pod: Pod, nodes: Nodes
) -> dict[str, dict[str, tuple[str, ...]]]:
    if not pod.spec.resource_claims:
        return {}
    for plugin in profile.plugins.values():
        if isinstance(plugin, TracesAllocations):
            return {name: dict(plugin.trace_allocations(state, pod, name)) for name in nodes.names}
    return {}
