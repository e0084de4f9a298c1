"""Pods of one shape share a plan: what is remembered of the plugins' answers, and whom to ask every time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from stowplan.cluster import Cluster, Nodes
from stowplan.framework.contract import (
    ASK_ALWAYS,
    SKIP,
    CycleState,
    FilterPlugin,
    Narrow,
    Plugin,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    ScorePlugin,
    points_of,
)
from stowplan.framework.decision import Rejections
from stowplan.framework.failure import PluginError
from stowplan.framework.memory import FilterMemory, RowMemory, ScoreMemory
from stowplan.framework.merged import MergedColumns, NodeColumns
from stowplan.framework.profile import Profile
from stowplan.framework.status import Code, Status
from stowplan.framework.verdict import Verdict
from stowplan.objects import Pod

_PLAN_BYTES = 64 << 20
_COLUMNS_PER_PLAN = 6
_MAX_SHAPES = 20_000
_MOST_NEW = 16
_DECIDING = frozenset(("preFilter", "filter", "preScore", "score"))

NO_CONCERN: Final = object()
"""In place of a part of the shape: this plugin has nothing to do with such pods."""

PreFilterAnswer: TypeAlias = Status | Narrow | None
MemoryT = TypeVar("MemoryT", bound=RowMemory)


class ShapePlan:
    """How to decide pods of one shape. Filters and scores are in the order of the profile; those that
    are remembered stand beside those that must be asked every time."""

    def __init__(self, profile: Profile, pod: Pod, parts: Mapping[str, Hashable], memories: Memories) -> None:
        self.profile = profile
        self.cluster: Cluster = profile.host.cluster
        self.state = CycleState()
        self._parts = parts
        self._pre_answers: list[PreFilterAnswer] = []
        self._ask_pre_points(pod)
        self.fixed = all(answer is None or answer == SKIP for answer in self._pre_answers)
        """Whether no remembered PreFilter rejects or narrows: the ordinary case."""
        self.pre_filters = [p for p in profile.pre_filters if self._asked_always(p)]
        self.pre_scores = [p for p in profile.pre_scores if self._asked_always(p)]

        self.live_filters: list[tuple[int, FilterPlugin]] = []
        self._filters: list[tuple[int, FilterMemory]] = []
        for number, plugin in enumerate(profile.filters, 1):
            if self._asked_always(plugin):
                self.live_filters.append((number, plugin))
            elif plugin.name not in self.state.skipped_filters:
                memory = memories.filter(plugin, parts[plugin.name], self.state, pod)
                self._filters.append((number, memory))
        self.live_scores: list[tuple[int, ScorePlugin]] = []
        scores: list[tuple[int, ScoreMemory]] = []
        for scorer in profile.scores:
            weight = profile.weights[scorer.name]
            if self._asked_always(scorer):
                self.live_scores.append((weight, scorer))
            elif scorer.name not in self.state.skipped_scores:
                scores.append((weight, memories.score(scorer, parts[scorer.name], self.state, pod)))
        self._normalizing = [one for one in scores if one[1].normalizes]
        plain = [one for one in scores if not one[1].normalizes]
        self.merged = MergedColumns(
            self.cluster,
            memories.node_columns(_of_nodes(self._filters), _of_nodes(plain)),
            _of_usage(self._filters),
            _of_usage(plain),
            [memory for _, memory in self._normalizing],
        )
        self._rejections: Rejections | None = None
        self._rejections_version = -1

    def _asked_always(self, plugin: Plugin) -> bool:
        return self._parts[plugin.name] is ASK_ALWAYS

    def _remembered(self, plugin: Plugin) -> bool:
        part = self._parts[plugin.name]
        return part is not ASK_ALWAYS and part is not NO_CONCERN

    def _ask_pre_points(self, pod: Pod) -> None:
        """PreFilter and PreScore of remembered plugins depend on the shape alone: once is enough. Plugins
        that the pod does not concern are left out, in trials too."""
        nodes = self.cluster.nodes
        unconcerned = {name for name, part in self._parts.items() if part is NO_CONCERN}
        self.state.skipped_filters |= unconcerned
        self.state.skipped_scores |= unconcerned
        for plugin in self.profile.pre_filters:
            if self._remembered(plugin):
                answer = ask_pre_filter(plugin, self.state, pod, nodes)
                self._pre_answers.append(answer)
                if answer == SKIP:
                    self.state.skipped_filters.add(plugin.name)
        for scorer in self.profile.pre_scores:
            if self._remembered(scorer) and ask_pre_score(scorer, self.state, pod, nodes):
                self.state.skipped_scores.add(scorer.name)

    def rejections(self) -> Rejections:
        """Why no row takes the pod, as long as nothing must be asked every time. Kept until some row is
        rejected by another filter or for another reason: for thousands of pods that fit nowhere the words
        are made once."""
        if self._rejections is None or self._rejections_version != self.merged.version:
            self._rejections = Rejections(
                self.cluster, rejected_by=self.merged.rejected_by.copy(), verdicts=self.verdicts()
            )
            self._rejections_version = self.merged.version
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
        return [one for one in self._normalizing if not one[1].uniform]

    def verdicts(self) -> list[tuple[str, Verdict]]:
        """A verdict for each filter of the profile, in order; those not remembered pass every node."""
        known = dict(self._filters)
        blank = Verdict.passes(self.cluster.table.size)
        return [
            (plugin.name, known[number].verdict() if number in known else blank)
            for number, plugin in enumerate(self.profile.filters, 1)
        ]


class Memories:
    """What plugins answered, per plugin and part of the shape; alive as long as a plan uses it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: WeakValueDictionary[Hashable, RowMemory] = WeakValueDictionary()
        self._nodes: WeakValueDictionary[Hashable, NodeColumns] = WeakValueDictionary()

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

    def node_columns(
        self, filters: Sequence[tuple[int, FilterMemory]], scores: Sequence[tuple[int, ScoreMemory]]
    ) -> NodeColumns:
        key = (*(memory for _, memory in filters), *(memory for _, memory in scores))
        columns = self._nodes.get(key)
        if columns is None:
            columns = self._nodes[key] = NodeColumns(self._cluster, filters, scores)
        return columns


class ShapePlans:
    """The plans of a profile by shape; those used longest ago are forgotten when they take much memory."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._cluster = profile.host.cluster
        self._memories = Memories(self._cluster)
        self._judges = [
            plugin for plugin in profile.plugins.values() if not points_of(type(plugin)).isdisjoint(_DECIDING)
        ]
        self._by_shape: dict[Hashable, ShapePlan] = {}
        self._plans: OrderedDict[Hashable, ShapePlan] = OrderedDict()
        self._new: OrderedDict[Hashable, ShapePlan] = OrderedDict()
        """Plans of shapes seen once: they must come again before they take the place of others."""
        self._version = self._cluster.device_classes.version

    def plan(self, pod: Pod) -> ShapePlan:
        shape = (pod.spec, pod.labels, pod.namespace, pod.controller, pod.node_name)
        if self._version != self._cluster.device_classes.version:
            self._forget_all()
        plan = self._by_shape.get(shape)
        return plan if plan is not None else self._find(shape, pod)

    def _find(self, shape: Hashable, pod: Pod) -> ShapePlan:
        """Different shapes may ask all plugins the same: they share a plan."""
        parts = {plugin.name: ask_shape(plugin, pod) for plugin in self._judges}
        key = tuple(parts.values())
        plan = self._plans.get(key)
        if plan is None:
            plan = self._new.pop(key, None)
            if plan is None:
                plan = ShapePlan(self._profile, pod, parts, self._memories)
                self._new[key] = plan
                if len(self._new) > _MOST_NEW:
                    self._new.popitem(last=False)
                return plan
            self._plans[key] = plan
            self._trim()
        self._by_shape[shape] = plan
        return plan

    def _forget_all(self) -> None:
        """A device class says which resources devices may stand in for: shapes depend on that."""
        self._plans.clear()
        self._new.clear()
        self._by_shape.clear()
        self._version = self._cluster.device_classes.version

    def _trim(self) -> None:
        """Over the limit, the older half goes: what is still in use comes back soon."""
        rows = self._cluster.table.capacity
        most = max(16, _PLAN_BYTES // (rows * 8 * _COLUMNS_PER_PLAN))
        if len(self._plans) > most:
            for key in list(self._plans)[: most // 2]:
                del self._plans[key]
            self._by_shape.clear()
        elif len(self._by_shape) > _MAX_SHAPES:
            self._by_shape.clear()


def _of_nodes(memories: Sequence[tuple[int, MemoryT]]) -> list[tuple[int, MemoryT]]:
    return [one for one in memories if not one[1].reads_usage]


def _of_usage(memories: Sequence[tuple[int, MemoryT]]) -> list[tuple[int, MemoryT]]:
    return [one for one in memories if one[1].reads_usage]


def ask_shape(plugin: Plugin, pod: Pod) -> Hashable:
    """What tells pods of one plan from others, as far as this plugin goes."""
    try:
        if not plugin.concerns(pod):
            return NO_CONCERN
        if Reads.CLUSTER in plugin.reads:
            return ASK_ALWAYS
        part = plugin.shape(pod)
        hash(part)
        return part
    except Exception as problem:
        raise PluginError(plugin.name, "shape", problem) from problem


def ask_pre_filter(plugin: PreFilterPlugin, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterAnswer:
    """PreFilter's answer; any code but those of the contract is the plugin's failure."""
    try:
        answer: object = plugin.pre_filter(state, pod, nodes)
        if answer is None or isinstance(answer, Narrow):
            return answer
        if isinstance(answer, Status) and (answer.rejected or answer.code is Code.SKIP):
            return answer
        raise ValueError(answer.message if isinstance(answer, Status) else f"{answer!r} is not an answer")
    except Exception as problem:
        raise PluginError(plugin.name, "preFilter", problem) from problem


def ask_pre_score(plugin: PreScorePlugin, state: CycleState, pod: Pod, nodes: Nodes) -> bool:
    """Whether PreScore says to skip the plugin's Score."""
    try:
        answer: object = plugin.pre_score(state, pod, nodes)
        if answer is None or (isinstance(answer, Status) and answer.code is Code.SKIP):
            return answer is not None
        raise ValueError(answer.message if isinstance(answer, Status) else f"{answer!r} is not an answer")
    except Exception as problem:
        raise PluginError(plugin.name, "preScore", problem) from problem
