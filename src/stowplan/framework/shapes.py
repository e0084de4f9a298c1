"""Pods of one shape share a plan: remembered answers of all plugins, merged into two columns.

`rejected_by` says for every row which filter rejects it first (0: none so far), `ranked` what the row
scores, -1 where it is rejected. What cannot be remembered is asked at every decision and laid over them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Final, TypeAlias
from weakref import WeakValueDictionary

import numpy as np

from stowplan.cluster import Cluster, IntColumn
from stowplan.framework.contract import (
    SKIP,
    CycleState,
    FilterPlugin,
    Narrow,
    Plugin,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    ScorePlugin,
)
from stowplan.framework.decision import Rejections
from stowplan.framework.failure import PluginError
from stowplan.framework.memory import FilterMemory, RowMemory, ScoreMemory
from stowplan.framework.profile import Profile
from stowplan.framework.status import Code, Status
from stowplan.framework.verdict import Verdict
from stowplan.objects import Pod

_FEW = 16
_PLAN_BYTES = 64 << 20
_COLUMNS_PER_PLAN = 6
_MAX_SHAPES = 20_000

LIVE: Final = object()
"""In place of a part of the shape: this plugin is asked at every decision."""
NO_CONCERN: Final = object()
"""In place of a part of the shape: this plugin has nothing to do with such pods."""

PreFilterAnswer: TypeAlias = Status | Narrow | None


class ShapePlan:
    """How to decide pods of one shape. Filters and scores are in the order of the profile; those that
    are remembered stand beside those that must be asked every time."""

    def __init__(self, profile: Profile, pod: Pod, parts: Mapping[str, Hashable], memories: Memories) -> None:
        self.profile = profile
        self.cluster: Cluster = profile.host.cluster
        self.state = CycleState()
        self._parts = parts
        self.pre_answers: dict[str, PreFilterAnswer] = {}
        self._ask_pre_points(pod)
        self.fixed = all(answer is None or answer == SKIP for answer in self.pre_answers.values())
        """Whether no remembered PreFilter rejects or narrows: the ordinary case."""
        self.pre_filters = tuple(p for p in profile.pre_filters if self._asked_always(p))
        self.pre_scores = tuple(p for p in profile.pre_scores if self._asked_always(p))

        self.filters: list[tuple[int, FilterMemory]] = []
        self.live_filters: list[tuple[int, FilterPlugin]] = []
        for number, plugin in enumerate(profile.filters, 1):
            if self._asked_always(plugin):
                self.live_filters.append((number, plugin))
            elif self._remembered(plugin) and plugin.name not in self.state.skipped_filters:
                self.filters.append((number, memories.filter(plugin, parts[plugin.name], self.state, pod)))
        self.scores: list[tuple[int, ScoreMemory]] = []
        self.live_scores: list[tuple[int, ScorePlugin]] = []
        for plugin in profile.scores:
            weight = profile.weights[plugin.name]
            if self._asked_always(plugin):
                self.live_scores.append((weight, plugin))
            elif self._remembered(plugin) and plugin.name not in self.state.skipped_scores:
                self.scores.append((weight, memories.score(plugin, parts[plugin.name], self.state, pod)))
        self._memories: list[RowMemory] = [memory for _, memory in (*self.filters, *self.scores)]

        self._rejected_by: IntColumn = np.zeros(0, np.int64)
        self._codes: IntColumn = np.zeros(0, np.int64)
        self._ranked: IntColumn = np.zeros(0, np.int64)
        self._size = -1
        self._generation = -1
        self._node_position = -1
        self._usage_position = -1
        self._rejections: Rejections | None = None
        self._rejections_version = -1
        self.feasible = 0
        self.version = 0
        """Grows whenever another filter, or none, rejects some row, or for another reason."""

    def _asked_always(self, plugin: Plugin) -> bool:
        return self._parts[plugin.name] is LIVE

    def _remembered(self, plugin: Plugin) -> bool:
        part = self._parts[plugin.name]
        return part is not LIVE and part is not NO_CONCERN

    def _ask_pre_points(self, pod: Pod) -> None:
        """PreFilter and PreScore of remembered plugins depend on the shape alone: once is enough."""
        nodes = self.cluster.nodes
        for plugin in self.profile.pre_filters:
            if self._remembered(plugin):
                answer = ask_pre_filter(plugin, self.state, pod, nodes)
                self.pre_answers[plugin.name] = answer
                if answer == SKIP:
                    self.state.skipped_filters.add(plugin.name)
        for scorer in self.profile.pre_scores:
            if self._remembered(scorer) and ask_pre_score(scorer, self.state, pod, nodes):
                self.state.skipped_scores.add(scorer.name)

    # Columns

    @property
    def rejected_by(self) -> IntColumn:
        return self._rejected_by[: self._size]

    @property
    def ranked(self) -> IntColumn:
        return self._ranked[: self._size]

    def refresh(self) -> None:
        """Brings the columns up to date with the cluster."""
        table = self.cluster.table
        node_position, usage_position = table.node_log.position, table.usage_log.position
        if usage_position == self._usage_position and node_position == self._node_position:
            return
        for memory in self._memories:
            memory.refresh()
        rows = None
        generation = sum(memory.generation for memory in self._memories)
        if table.size == self._size and generation == self._generation:
            rows = table.usage_log.since(self._usage_position)
            if rows is not None and node_position != self._node_position:
                changed = table.node_log.since(self._node_position)
                rows = None if changed is None else rows + changed
        if rows is None or len(rows) > _FEW:
            self._merge_all()
        else:
            for row in set(rows):
                self._merge_one(row)
        self._generation = generation
        self._node_position, self._usage_position = node_position, usage_position

    def _merge_all(self) -> None:
        size = self._size = self.cluster.table.size
        self._rejected_by = np.zeros(size, np.int64)
        self._codes = np.zeros(size, np.int64)
        for number, memory in reversed(self.filters):
            rows = np.flatnonzero(memory.column)
            self._rejected_by[rows] = number
            self._codes[rows] = memory.column[rows]
        self._ranked = np.zeros(size, np.int64)
        for weight, scores in self.scores:
            if not scores.normalizes:
                self._ranked += scores.column if weight == 1 else scores.column * weight
        rejected = self._rejected_by != 0
        self._ranked[rejected] = -1
        self.feasible = size - int(np.count_nonzero(rejected))
        self.version += 1

    def _merge_one(self, row: int) -> None:
        by = code = 0
        for number, memory in self.filters:
            code = memory.item(row)
            if code:
                by = number
                break
        before = self._rejected_by.item(row)
        if before != by or self._codes.item(row) != code:
            self._rejected_by[row] = by
            self._codes[row] = code
            self.feasible += (by == 0) - (before == 0)
            self.version += 1
        if by:
            self._ranked[row] = -1
            return
        total = 0
        for weight, scores in self.scores:
            if not scores.normalizes:
                total += scores.item(row) * weight
        self._ranked[row] = total

    def rejections(self) -> Rejections:
        """Why no row takes the pod, as long as nothing must be asked every time. Kept until some row is
        rejected by another filter or for another reason: for thousands of pods that fit nowhere the words
        are made once."""
        if self._rejections is None or self._rejections_version != self.version:
            self._rejections = Rejections(
                self.cluster, rejected_by=self.rejected_by.copy(), verdicts=self.verdicts()
            )
            self._rejections_version = self.version
        return self._rejections

    def fork_state(self) -> CycleState:
        """A state for one cycle, with what the remembered plugins noted."""
        state = CycleState(self.state)
        state.skipped_filters |= self.state.skipped_filters
        state.skipped_scores |= self.state.skipped_scores
        return state

    def normalizing(self) -> list[tuple[int, ScoreMemory]]:
        """The remembered scores that must be normalised over the nodes that can take the pod, and are not
        the same for all of them."""
        return [
            (weight, memory) for weight, memory in self.scores if memory.normalizes and not memory.uniform
        ]

    def verdicts(self) -> list[tuple[str, Verdict]]:
        """A verdict for each filter of the profile, in order; those not remembered pass every node."""
        known = dict(self.filters)
        blank = Verdict.passes(self._size)
        return [
            (plugin.name, known[number].verdict() if number in known else blank)
            for number, plugin in enumerate(self.profile.filters, 1)
        ]


class Memories:
    """What plugins answered, per plugin and part of the shape; alive as long as a plan uses it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: WeakValueDictionary[Hashable, RowMemory] = WeakValueDictionary()

    def filter(self, plugin: FilterPlugin, part: Hashable, state: CycleState, pod: Pod) -> FilterMemory:
        key = ("filter", plugin, part)
        memory = self._known.get(key)
        if not isinstance(memory, FilterMemory):
            memory = self._known[key] = FilterMemory(plugin, self._cluster, state, pod)
        return memory

    def score(self, plugin: ScorePlugin, part: Hashable, state: CycleState, pod: Pod) -> ScoreMemory:
        key = ("score", plugin, part)
        memory = self._known.get(key)
        if not isinstance(memory, ScoreMemory):
            memory = self._known[key] = ScoreMemory(plugin, self._cluster, state, pod)
        return memory


class ShapePlans:
    """The plans of a profile by shape; those used longest ago are forgotten when they take much memory."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._memories = Memories(profile.host.cluster)
        self._by_shape: dict[Hashable, ShapePlan] = {}
        self._plans: OrderedDict[Hashable, ShapePlan] = OrderedDict()

    def plan(self, pod: Pod) -> ShapePlan:
        shape = (pod.spec, pod.labels, pod.namespace, pod.controller, pod.node_name)
        plan = self._by_shape.get(shape)
        return plan if plan is not None else self._find(shape, pod)

    def _find(self, shape: Hashable, pod: Pod) -> ShapePlan:
        """Different shapes may ask all plugins the same: they share a plan."""
        parts = {name: ask_shape(plugin, pod) for name, plugin in self._profile.plugins.items()}
        key = tuple(parts.values())
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = ShapePlan(self._profile, pod, parts, self._memories)
        self._plans.move_to_end(key)
        self._trim()
        self._by_shape[shape] = plan
        return plan

    def _trim(self) -> None:
        rows = self._profile.host.cluster.table.capacity
        most = max(16, _PLAN_BYTES // (rows * 8 * _COLUMNS_PER_PLAN))
        if len(self._plans) > most or len(self._by_shape) > _MAX_SHAPES:
            self._by_shape.clear()
            while len(self._plans) > most:
                self._plans.popitem(last=False)


def ask_shape(plugin: Plugin, pod: Pod) -> Hashable:
    """What tells pods of one plan from others, as far as this plugin goes."""
    try:
        if not plugin.concerns(pod):
            return NO_CONCERN
        if Reads.CLUSTER in plugin.reads:
            return LIVE
        part = plugin.shape(pod)
        hash(part)
        return part
    except Exception as problem:
        raise PluginError(plugin.name, "shape", problem) from problem


def ask_pre_filter(plugin: PreFilterPlugin, state: CycleState, pod: Pod, nodes: object) -> PreFilterAnswer:
    """PreFilter's answer; any code but those of the contract is the plugin's failure."""
    try:
        answer = plugin.pre_filter(state, pod, nodes)  # type: ignore[arg-type]
    except Exception as problem:
        raise PluginError(plugin.name, "preFilter", problem) from problem
    if answer is None or isinstance(answer, Narrow):
        return answer
    if not isinstance(answer, Status) or not (answer.rejected or answer.code is Code.SKIP):
        problem = answer.message if isinstance(answer, Status) else f"{answer!r} is no answer to PreFilter"
        raise PluginError(plugin.name, "preFilter", problem)
    return answer


def ask_pre_score(plugin: PreScorePlugin, state: CycleState, pod: Pod, nodes: object) -> bool:
    """Whether PreScore says to skip the plugin's Score."""
    try:
        answer = plugin.pre_score(state, pod, nodes)  # type: ignore[arg-type]
    except Exception as problem:
        raise PluginError(plugin.name, "preScore", problem) from problem
    if answer is not None and (not isinstance(answer, Status) or answer.code is not Code.SKIP):
        problem = answer.message if isinstance(answer, Status) else f"{answer!r} is no answer to PreScore"
        raise PluginError(plugin.name, "preScore", problem)
    return answer is not None
