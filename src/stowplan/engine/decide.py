"""Decides pods: the hot path. What is remembered of a pod's shape is laid out in columns already; what
must be asked every time is asked, laid over them, and the best row is taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stowplan.cluster import IntColumn, Mask, NodeRow, Nodes
from stowplan.engine.sampling import Rotation, nodes_to_find
from stowplan.engine.ties import pick_best
from stowplan.framework.asking import ask_post_filter, ask_pre_filter, ask_pre_score
from stowplan.framework.contract import SKIP, CycleState
from stowplan.framework.cycle import (
    PreFilterOutcome,
    run_filters,
    run_normalize,
    run_pre_filters,
    run_pre_scores,
    run_score,
    run_with_nominated,
)
from stowplan.framework.decision import NO_NODES, Decision, Rejections
from stowplan.framework.failure import PluginError
from stowplan.framework.memory import ask_filter
from stowplan.framework.nominated import rejected_with_nominated
from stowplan.framework.plans import Plan
from stowplan.framework.profile import Profile
from stowplan.framework.shapes import ShapePlans
from stowplan.framework.status import Code, Status, error, unresolvable
from stowplan.framework.verdict import Verdict
from stowplan.objects import Pod


class Overlay(NamedTuple):
    """What had to be asked at this decision, on top of what is remembered."""

    verdicts: list[tuple[int, Verdict]]
    nominated: Sequence[tuple[str, Verdict]]
    """On rows that cannot take the pod because of others nominated to them."""

    def apply(self, feasible: Mask) -> Mask:
        for _, verdict in (*self.verdicts, *self.nominated):
            feasible = feasible & (verdict.codes == 0)
        return feasible

    @property
    def empty(self) -> bool:
        return not self.verdicts and not self.nominated


class Decider:
    """Decides the pods of one profile."""

    def __init__(self, profile: Profile, rotation: Rotation | None = None) -> None:
        self.profile = profile
        self.cluster = profile.host.cluster
        self._plans = ShapePlans(profile)
        self._rotation = rotation or Rotation(self.cluster)
        self._percentage = profile.percentage_of_nodes_to_score

    def decide(self, pod: Pod, attempt: int = 0) -> Decision:
        """Which node, or why none. A plugin that fails makes this pod an error and harms no other."""
        try:
            return self._decide(pod, attempt)
        except PluginError as failure:
            return Decision(pod=pod, state=CycleState(), status=error(str(failure)), message=str(failure))

    def _decide(self, pod: Pod, attempt: int) -> Decision:
        if not self.cluster.table.size:
            status = unresolvable(NO_NODES)
            return Decision(pod=pod, state=CycleState(), status=status, nominated_node="", message=NO_NODES)
        if self.cluster.in_trial:
            return self._decide_afresh(pod, attempt)
        plan = self._plans.plan(pod)
        state = plan.fork_state()
        if not (plan.fixed and self._live_pre_filters_pass(plan, state, pod)):
            return self._decide_afresh(pod, attempt)
        promised = promised_row_that_fits(self.profile, state, pod)
        if promised is not None:
            return self._chosen(pod, state, promised, 1, 1)
        plan.merged.refresh()
        overlay = self._ask_live(plan, state, pod)
        if self._percentage:
            return self._sampled(plan, state, pod, attempt, overlay)
        if overlay.empty:
            return self._choose(plan, state, pod, attempt, None, plan.merged.feasible, overlay)
        feasible = overlay.apply(plan.merged.ranked >= 0)
        return self._choose(plan, state, pod, attempt, feasible, int(np.count_nonzero(feasible)), overlay)

    def _live_pre_filters_pass(self, plan: Plan, state: CycleState, pod: Pod) -> bool:
        nodes = self.cluster.nodes
        for plugin in plan.pre_filters:
            answer = ask_pre_filter(plugin, state, pod, nodes)
            if answer is SKIP:
                state.skipped_filters.add(plugin.name)
            elif answer is not None:
                return False
        return True

    def _ask_live(self, plan: Plan, state: CycleState, pod: Pod) -> Overlay:
        """Each filter is asked about the rows that no filter before it rejects, as upstream asks it: what
        it would say of others, be it an error, counts for nothing."""
        rejected_by = plan.merged.rejected_by
        verdicts: list[tuple[int, Verdict]] = []
        for number, plugin in plan.live_filters:
            if plugin.name not in state.skipped_filters:
                left = (rejected_by == 0) | (rejected_by > number)
                for _, earlier in verdicts:
                    left &= earlier.codes == 0
                nodes = self.cluster.nodes if left.all() else self.cluster.nodes.where(left)
                if nodes.size:
                    verdict = ask_filter(plugin, state, pod, nodes)
                    verdicts.append((number, verdict.spread_out(nodes.rows, len(left))))
        return Overlay(verdicts, rejected_with_nominated(self.profile, state, pod, rejected_by))

    # Choosing

    def _sampled(self, plan: Plan, state: CycleState, pod: Pod, attempt: int, overlay: Overlay) -> Decision:
        wanted = nodes_wanted(self.profile)
        feasible, looked_at = self._rotation.cut(overlay.apply(plan.merged.ranked >= 0), wanted)
        count = int(np.count_nonzero(feasible))
        return self._choose(plan, state, pod, attempt, feasible, count, overlay, looked_at)

    def _choose(
        self,
        plan: Plan,
        state: CycleState,
        pod: Pod,
        attempt: int,
        feasible: Mask | None,
        count: int,
        overlay: Overlay,
        looked_at: int = 0,
    ) -> Decision:
        """Takes the best of the feasible rows; without a mask these are the plan's."""
        looked_at = looked_at or self.cluster.table.size
        if count == 0:
            return self._rejected(pod, state, self._rejections(plan, overlay))
        ranked = plan.merged.ranked
        if count == 1:
            row = int(ranked.argmax() if feasible is None else feasible.argmax())
            return self._chosen(pod, state, row, count, looked_at)
        if count == len(ranked):
            nodes = self.cluster.nodes
        else:
            nodes = Nodes(self.cluster, np.flatnonzero(ranked >= 0 if feasible is None else feasible))
        totals = self._totals(plan, state, pod, nodes)
        position = pick_best(totals, self.profile.host.seed, pod, attempt)
        row = position if isinstance(nodes.rows, slice) else nodes.rows.item(position)
        return self._chosen(pod, state, row, count, looked_at)

    def _totals(self, plan: Plan, state: CycleState, pod: Pod, nodes: Nodes) -> IntColumn:
        """The weighted scores of these nodes; what all nodes have in common may be left out."""
        plan.check_scores()
        totals = plan.merged.ranked[nodes.rows]
        for pre_score in plan.pre_scores:
            if ask_pre_score(pre_score, state, pod, nodes):
                state.skipped_scores.add(pre_score.name)
        for weight, memory in plan.normalizing():
            raw = memory.column[nodes.rows]
            totals = totals + run_normalize(memory.plugin, state, pod, raw, nodes) * weight
        for weight, plugin in plan.live_scores:
            if plugin.name not in state.skipped_scores:
                totals = totals + run_score(plugin, state, pod, nodes)[1] * weight
        return totals

    def _chosen(self, pod: Pod, state: CycleState, row: int, feasible: int, looked_at: int) -> Decision:
        name = self.cluster.table.nodes[row].name
        return Decision(pod=pod, state=state, node_name=name, feasible=feasible, looked_at=looked_at)

    # Rejecting

    def _rejections(self, plan: Plan, overlay: Overlay) -> Rejections:
        if overlay.empty:
            return plan.rejections()
        rejected_by = plan.merged.rejected_by.copy()
        verdicts = plan.verdicts()
        for number, verdict in overlay.verdicts:
            verdicts[number - 1] = (verdicts[number - 1][0], verdict)
            first = (verdict.codes != 0) & ((rejected_by == 0) | (rejected_by > number))
            rejected_by[first] = number
        add_verdicts(overlay.nominated, verdicts, rejected_by)
        return Rejections(self.cluster, rejected_by=rejected_by, verdicts=verdicts)

    def _rejected(self, pod: Pod, state: CycleState, rejections: Rejections) -> Decision:
        """No node will do: PostFilter may make room."""
        status = Status(Code.UNSCHEDULABLE, (rejections.message,))
        nominated: str | None = None if self.profile.post_filters else ""
        victims: tuple[Pod, ...] = ()
        reasons: list[str] = []
        for plugin in self.profile.post_filters:
            result = ask_post_filter(plugin, state, pod, rejections)
            if result.nominated_node is not None:
                nominated, victims = result.nominated_node, result.victims
            if result.status is None:
                reasons.clear()
                break
            reasons += result.status.reasons
            if result.status.code is Code.UNRESOLVABLE:
                break
        message = rejections.message + (f" {', '.join(reasons)}" if reasons else "")
        return Decision(
            pod=pod,
            state=state,
            status=status,
            rejections=rejections,
            nominated_node=nominated,
            victims=victims,
            looked_at=self.cluster.table.size,
            message=message,
        )

    # Without memory

    def _decide_afresh(self, pod: Pod, attempt: int) -> Decision:
        """The way of pods that PreFilter rejects or narrows to a few nodes, and of trials."""
        state = CycleState()
        outcome = run_pre_filters(self.profile, state, pod)
        if outcome.status is not None:
            return self._rejected(pod, state, prefilter_rejections(self.profile, outcome))
        promised = promised_row_that_fits(self.profile, state, pod)
        if promised is not None:
            return self._chosen(pod, state, promised, 1, 1)
        nodes, rejections = look_at_nodes(self.profile, state, pod, outcome)
        if nodes.size == 0:
            return self._rejected(pod, state, rejections)
        looked_at = self.cluster.table.size if outcome.names is None else len(outcome.names)
        if nodes.size == 1:
            return self._chosen(pod, state, nodes.row_numbers.item(0), 1, looked_at)
        run_pre_scores(self.profile, state, pod, nodes)
        totals = np.zeros(nodes.size, np.int64)
        for plugin in self.profile.scores:
            if plugin.name not in state.skipped_scores:
                totals += run_score(plugin, state, pod, nodes)[1] * self.profile.weights[plugin.name]
        position = pick_best(totals, self.profile.host.seed, pod, attempt)
        return self._chosen(pod, state, nodes.row_numbers.item(position), nodes.size, looked_at)


def promised_row_that_fits(profile: Profile, state: CycleState, pod: Pod) -> int | None:
    """The row that the pod itself is nominated to, if it can go there by now: others need no look."""
    cluster = profile.host.cluster
    name = pod.status.nominated_node_name or cluster.nominations.node_of(pod.uid)
    row = cluster.row_of(name) if name else None
    if row is None or run_with_nominated(profile, state, pod, NodeRow(cluster, row)):
        return None
    return row


def nodes_wanted(profile: Profile) -> int:
    """How many nodes that can take the pod end the search, where not all are looked at. Where nothing scores,
    one node is as good as another."""
    nodes = profile.host.cluster.table.size
    return nodes_to_find(profile.percentage_of_nodes_to_score, nodes) if profile.scores else 1


def prefilter_rejections(profile: Profile, outcome: PreFilterOutcome) -> Rejections:
    """PreFilter's status counts for every node."""
    message = outcome.status.message if outcome.status is not None else ""
    return Rejections(
        profile.host.cluster,
        absent=outcome.absent,
        prefilter_message=message,
        narrowing=outcome.narrowing,
    )


def look_at_nodes(
    profile: Profile, state: CycleState, pod: Pod, outcome: PreFilterOutcome
) -> tuple[Nodes, Rejections]:
    """The nodes that can take the pod, and why the others cannot, asked without memory."""
    cluster = profile.host.cluster
    size = cluster.table.size
    if outcome.names is None:
        nodes = cluster.nodes
    else:
        rows = sorted(row for name in outcome.names if (row := cluster.row_of(name)) is not None)
        nodes = Nodes(cluster, np.array(rows, np.int64))
    rejected_by, verdicts = run_filters(profile, state, pod, nodes)
    by_row = np.zeros(size, np.int64)
    by_row[nodes.rows] = rejected_by
    said = [(name, verdict.spread_out(nodes.rows, size)) for name, verdict in verdicts]
    add_verdicts(rejected_with_nominated(profile, state, pod, by_row, outcome.names), said, by_row)
    return nodes.where(by_row[nodes.rows] == 0), Rejections(
        cluster,
        absent=outcome.absent,
        rejected_by=by_row,
        verdicts=said,
        narrowing=outcome.narrowing,
    )


def add_verdicts(
    more: Sequence[tuple[str, Verdict]], verdicts: list[tuple[str, Verdict]], rejected_by: IntColumn
) -> None:
    """Adds verdicts that count before all others on the rows that they reject."""
    for name, verdict in more:
        verdicts.append((name, verdict))
        rejected_by[verdict.codes != 0] = len(verdicts)
