"""The quick way: where only room keeps a pod from a node, all nodes are judged at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stowplan.cluster import Cluster, IntColumn, Mask, Nodes
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
        chosen = np.zeros(self.cluster.table.size, np.bool_)
        chosen[: len(rejections.rejected_by)] = rejections.rejected_by == rule.number
        for row, status in rejections.extra.items():
            chosen[row] = status.plugin == rule.plugin.name
        only_room: Mask = chosen[rows]
        return only_room

    def judge(self, rule: RoomRule, state: CycleState, pod: Pod, rows: IntColumn) -> JudgedRows:
        outcomes = self._memory.outcomes(rule.need)
        promised = self._promised(rule.need, pod, rows)
        judged = JudgedRows(self, rule, state, pod, rows, promised, outcomes.judge)
        judged.take(outcomes.judgement)
        return judged

    def _promised(self, need: Need, pod: Pod, rows: IntColumn) -> dict[int, tuple[int, ...]]:
        """What pods nominated to rows will use of each amount of the need."""
        promised: dict[int, tuple[int, ...]] = {}
        if not len(self.cluster.nominations):
            return promised
        names, usage = self.cluster.promised.counting_against(pod)
        wanted = set(rows.tolist())
        width = usage.shape[1]
        for name, used in zip(names, usage.tolist(), strict=True):
            row = self.cluster.row_of(name)
            if row is not None and row in wanted:
                promised[row] = tuple(used[r] if r < width else 0 for r, _ in need.amounts)
        return promised


class JudgedRows:
    """What came of some rows for one pod."""

    def __init__(
        self,
        search: RoomSearch,
        rule: RoomRule,
        state: CycleState,
        pod: Pod,
        rows: IntColumn,
        promised: dict[int, tuple[int, ...]],
        judge: Judge,
    ) -> None:
        self._search = search
        self._rule = rule
        self._state = state
        self._pod = pod
        self._rows = rows
        self._promised = promised
        self._judge = judge
        self._judged = Judgement.blank(0)
        self._later = [self._ask(plugin, rows) for plugin in rule.later]

    def take(self, remembered: Judgement) -> None:
        """From what is remembered of all rows; rows that are promised to others are judged anew, because
        for whom that counts depends on who asks."""
        self._judged = remembered.of(self._rows)
        if self._promised:
            rows = np.array(sorted(self._promised), np.int64)
            amounts = np.array([self._promised[row] for row in rows.tolist()], np.int64).T
            self._judged.put(np.searchsorted(self._rows, rows), self._judge.columns(rows, amounts))

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
        found = self._judge.row(row, self._promised.get(row))
        assert isinstance(found, Candidate), "both ways of judging agree"
        return found

    def note_failures(self, findings: Findings) -> None:
        """Why preemption would not help on these rows, none of which is a candidate."""
        outcome = self._judged.outcome
        lonely = np.count_nonzero(outcome == NOBODY_LESSER)
        if lonely:
            findings.note(NO_VICTIMS, int(lonely))
        cramped = outcome == NO_ROOM
        promised = np.isin(self._rows, list(self._promised))
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
