"""The quick way: where only room keeps a pod from a node, all nodes are judged at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stowplan.cluster import Cluster, IntColumn, Mask, Nodes
from stowplan.cluster.promised import Promised
from stowplan.framework.contract import CycleState, FilterPlugin
from stowplan.framework.decision import Rejections
from stowplan.framework.memory import ask_filter
from stowplan.framework.nominated import only_room
from stowplan.framework.profile import Profile
from stowplan.framework.verdict import Verdict
from stowplan.objects import Pod
from stowplan.plugins.defaultpreemption.budgets import Budgets
from stowplan.plugins.defaultpreemption.columns import HELPS, NO_ROOM, NOBODY_LESSER, Judge, Judgement, Need
from stowplan.plugins.defaultpreemption.findings import Findings
from stowplan.plugins.defaultpreemption.outcomes import OutcomeMemory
from stowplan.plugins.defaultpreemption.trial import NO_VICTIMS, no_victim_needed, try_node
from stowplan.plugins.defaultpreemption.victims import Candidate


class RoomRule(NamedTuple):
    """All that keeps a pod from a node: room, which removing pods can make, and the node itself."""

    plugin: FilterPlugin
    number: int
    """Of the plugin among the profile's filters, from 1."""
    need: Need
    later: tuple[FilterPlugin, ...]
    """The filters behind it, which read the node alone: nobody has asked them about a node without room."""


def room_rule(profile: Profile, state: CycleState, pod: Pod) -> RoomRule | None:
    """The rule, when removing pods can change nothing but room; None when another filter minds them."""
    found = only_room(profile, state, pod)
    if found is None:
        return None
    find = profile.host.cluster.table.resources.find
    columns = tuple(
        (column, amount) for name, amount in found.amounts.items() if (column := find(name)) is not None
    )
    if len(columns) < len(found.amounts):
        return None  # no node offers one of them
    return RoomRule(found.plugin, found.number, Need(pod.spec.priority, columns), found.later)


class RoomSearch:
    """Judges nodes by room, and remembers what came out."""

    def __init__(self, profile: Profile, budgets: Budgets) -> None:
        self.profile = profile
        self.cluster: Cluster = profile.host.cluster
        self.budgets = budgets
        self._memory = OutcomeMemory(self.cluster, budgets)

    def rows(self, rule: RoomRule, rejections: Rejections, rows: IntColumn) -> Mask:
        """Which of the rows lack nothing but room: all filters before it were content with them."""
        chosen: Mask = np.zeros(len(rows), np.bool_)
        if not rejections.rejected_by.size:
            return chosen  # PreFilter rejected the pod, and no filter was asked
        rejected_by = rejections.rejected_by[rows]
        for number, (name, _) in enumerate(rejections.verdicts, 1):
            if name == rule.plugin.name:
                chosen |= rejected_by == number
        return chosen

    def judge(self, rule: RoomRule, state: CycleState, pod: Pod, rows: IntColumn) -> JudgedRows:
        outcomes = self._memory.outcomes(rule.need)
        judgement = outcomes.judgement.of(rows)
        promised = self._promised(rule.need, pod, rows)
        if promised.rows.size:
            # Which nominated pods count depends on who asks.
            judgement.put(np.searchsorted(rows, promised.rows), outcomes.with_promised(*promised))
        return JudgedRows(self, rule, state, pod, rows, promised, outcomes.judge, judgement)

    def _promised(self, need: Need, pod: Pod, rows: IntColumn) -> Promised:
        """Which of the rows are promised to others, and what those will use of each amount of the need."""
        if not len(self.cluster.nominations):
            return Promised(np.zeros(0, np.int64), np.zeros((len(need.amounts), 0), np.int64))
        found, usage = self.cluster.promised.counting_against(pod)
        asked = np.isin(found, rows, assume_unique=True)
        amounts = np.zeros((len(need.amounts), np.count_nonzero(asked)), np.int64)
        for i, (resource, _) in enumerate(need.amounts):
            if resource < len(usage):
                amounts[i] = usage[resource, asked]
        return Promised(found[asked], amounts)


class JudgedRows:
    """What came of some rows for one pod."""

    def __init__(
        self,
        search: RoomSearch,
        rule: RoomRule,
        state: CycleState,
        pod: Pod,
        rows: IntColumn,
        promised: Promised,
        judge: Judge,
        judged: Judgement,
    ) -> None:
        self._search = search
        self._rule = rule
        self._state = state
        self._pod = pod
        self._rows = rows
        self._promised = promised
        self._judge = judge
        self._judged = judged
        self._later = [self._ask(plugin, rows) for plugin in rule.later]

    def _ask(self, plugin: FilterPlugin, rows: IntColumn) -> Verdict:
        return ask_filter(plugin, self._state, self._pod, Nodes(self._search.cluster, rows))

    @property
    def _helped(self) -> Mask:
        helped: Mask = self._judged.outcome == HELPS
        for verdict in self._later:
            helped &= verdict.passed
        return helped

    def best(self, offset: int) -> Candidate | None:
        """The best candidate; of equals the first from `offset` on."""
        left = np.flatnonzero(self._helped)
        if not left.size:
            return None
        for merit in self._judged.merits:
            merits = merit[left]
            left = left[merits == merits.min()]
        starts = self._judged.earliest[left]
        left = left[starts == starts.max()]
        position = int(np.searchsorted(left, offset))
        row = self._rows.item(left.item(position % left.size))
        promised = self._promised.usage[:, self._promised.rows == row]
        found = self._judge.row(row, tuple(promised[:, 0].tolist()) if promised.size else None)
        assert isinstance(found, Candidate), "both ways of judging agree"
        return found

    def note_failures(self, findings: Findings) -> None:
        """Why preemption would not help on these rows, none of which is a candidate."""
        outcome = self._judged.outcome
        lonely = np.count_nonzero(outcome == NOBODY_LESSER)
        if lonely:
            findings.note(NO_VICTIMS, int(lonely))
        cramped = outcome == NO_ROOM
        promised = np.isin(self._rows, self._promised.rows, assume_unique=True)
        for row in self._rows[cramped & promised].tolist():
            findings.add(try_node(self._search.profile, self._state, self._pod, row, self._search.budgets))
        self._note_cramped(self._rows[cramped & ~promised], findings)
        self._note_rest((outcome != NOBODY_LESSER) & ~cramped, findings)

    def _note_cramped(self, rows: IntColumn, findings: Findings) -> None:
        """Asks the plugin itself what is lacking, with all that could be freed already gone."""
        if not rows.size:
            return
        table = self._search.cluster.table
        resources = np.array([resource for resource, _ in self._rule.need.amounts])
        with table.used_more(resources, rows, -self._judge.freed(rows)):
            verdict = self._ask(self._rule.plugin, rows)
        _note_verdict(verdict, verdict.codes != 0, findings)

    def _note_rest(self, rest: Mask, findings: Findings) -> None:
        """Rows where there would be room: a later filter rejects them, or nobody had to go at all."""
        for verdict in self._later:
            rejected = rest & ~verdict.passed
            _note_verdict(verdict, rejected, findings)
            rest = rest & verdict.passed
        nodes = self._search.cluster.table.nodes
        for row in self._rows[rest].tolist():
            findings.note(no_victim_needed(nodes[row].name), 1)


def _note_verdict(verdict: Verdict, rejected: Mask, findings: Findings) -> None:
    codes, counts = np.unique(verdict.codes[rejected], return_counts=True)
    for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
        findings.note(verdict.status_of(code), count)
