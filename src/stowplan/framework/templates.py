"""What pods of one template share: their specs differ in amounts of resources at the most.

Most plugins look at no more of a pod than that (`Plugin.shaped_by_template`), so they are asked about whole
templates, and pods that all request something else are told apart only by the few other plugins.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from stowplan.cluster import Cluster
from stowplan.framework.asking import NO_CONCERN, PreFilterAnswer, ask_pre_filter, ask_pre_score
from stowplan.framework.contract import (
    ASK_ALWAYS,
    SKIP,
    CycleState,
    FilterPlugin,
    Plugin,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
)
from stowplan.framework.failure import PluginError
from stowplan.framework.memory import FilterMemory, RowMemory, ScoreMemory
from stowplan.framework.merged import NodeColumns
from stowplan.framework.profile import Profile
from stowplan.objects import Pod

MemoryT = TypeVar("MemoryT", bound=RowMemory)

OWN: Final = object()
"""In place of a part of the template: pods of the template differ in what they are to this plugin."""


class Memories:
    """What plugins answered, per plugin and part of the shape; alive as long as a plan uses it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: WeakValueDictionary[Hashable, RowMemory] = WeakValueDictionary()
        self._nodes: WeakValueDictionary[Hashable, NodeColumns] = WeakValueDictionary()

    def filter(self, plugin: FilterPlugin, part: Hashable, state: CycleState, pod: Pod) -> FilterMemory:
        """What the plugin's Filter says of pods with this part of the shape."""
        key = ("filter", plugin, part)
        memory = self._known.get(key)
        if not isinstance(memory, FilterMemory):
            memory = self._known[key] = FilterMemory(plugin, self._cluster, state, pod)
        return memory

    def score(self, plugin: ScorePlugin, part: Hashable, state: CycleState, pod: Pod) -> ScoreMemory:
        """What the plugin's Score says of pods with this part of the shape."""
        key = ("score", plugin, part)
        memory = self._known.get(key)
        if not isinstance(memory, ScoreMemory):
            memory = self._known[key] = ScoreMemory(plugin, self._cluster, state, pod)
        return memory

    def node_columns(
        self, filters: Sequence[tuple[int, FilterMemory]], scores: Sequence[tuple[int, ScoreMemory]]
    ) -> NodeColumns:
        """These memories, which must depend on nodes alone, merged."""
        key = (*(memory for _, memory in filters), *(memory for _, memory in scores))
        columns = self._nodes.get(key)
        if columns is None:
            columns = self._nodes[key] = NodeColumns(self._cluster, filters, scores)
        return columns


class Template:
    """Whom to ask about pods of one template and when, and what was answered for all of them at once.

    For each plugin, `parts` holds NO_CONCERN, ASK_ALWAYS, OWN, or its part of the shape, which all pods of
    the template have in common. Everything is in the order of the profile; filters come with their numbers
    (from 1), scores with their weights.
    """

    def __init__(self, profile: Profile, pod: Pod, parts: Mapping[str, Hashable], memories: Memories) -> None:
        self._parts = parts
        filters = [*enumerate(profile.filters, 1)]
        scorers = [(profile.weights[scorer.name], scorer) for scorer in profile.scores]

        # Asked at every decision
        self.pre_filters = [one for one in profile.pre_filters if self._is(ASK_ALWAYS, one)]
        self.pre_scores = [one for one in profile.pre_scores if self._is(ASK_ALWAYS, one)]
        self.live_filters = [one for one in filters if self._is(ASK_ALWAYS, one[1])]
        self.live_scores = [one for one in scorers if self._is(ASK_ALWAYS, one[1])]

        # Asked for every shape
        self.own_pre_filters = [one for one in profile.pre_filters if self._is(OWN, one)]
        self.own_pre_scores = [one for one in profile.pre_scores if self._is(OWN, one)]
        self.own_filters = [one for one in filters if self._is(OWN, one[1])]
        self.own_scores = [one for one in scorers if self._is(OWN, one[1])]

        # Asked once
        self.state = CycleState()
        """What was noted, and who is left out."""
        unconcerned = {name for name, part in parts.items() if part is NO_CONCERN}
        self.state.skipped_filters |= unconcerned
        self.state.skipped_scores |= unconcerned
        self.ready = run_pre_points(
            profile,
            [one for one in profile.pre_filters if self._is_shared(one)],
            [one for one in profile.pre_scores if self._is_shared(one)],
            self.state,
            pod,
        )
        self.filters = [
            (number, memories.filter(one, parts[one.name], self.state, pod))
            for number, one in filters
            if self._is_shared(one) and one.name not in self.state.skipped_filters
        ]
        scores = [
            (weight, memories.score(one, parts[one.name], self.state, pod))
            for weight, one in scorers
            if self._is_shared(one) and one.name not in self.state.skipped_scores
        ]
        self.normalizing = [one for one in scores if one[1].normalizes]
        self.plain_scores = [one for one in scores if not one[1].normalizes]
        self.nodes = memories.node_columns(of_nodes(self.filters), of_nodes(self.plain_scores))
        """What follows from nodes alone, merged."""
        self.usage_filters = of_usage(self.filters)
        self.usage_scores = of_usage(self.plain_scores)
        self.usage_memories: list[RowMemory] = [m for _, m in (*self.usage_filters, *self.usage_scores)]

    def _is(self, kind: Hashable, plugin: Plugin) -> bool:
        return self._parts[plugin.name] is kind

    def _is_shared(self, plugin: Plugin) -> bool:
        part = self._parts[plugin.name]
        return part is not NO_CONCERN and part is not ASK_ALWAYS and part is not OWN


def of_nodes(memories: Sequence[tuple[int, MemoryT]]) -> list[tuple[int, MemoryT]]:
    """Those that do not depend on what is placed."""
    return [one for one in memories if not one[1].reads_usage]


def of_usage(memories: Sequence[tuple[int, MemoryT]]) -> list[tuple[int, MemoryT]]:
    """Those that do."""
    return [one for one in memories if one[1].reads_usage]


def forked(state: CycleState) -> CycleState:
    """Another state with the same notes, to add to."""
    twin = CycleState(state)
    twin.skipped_filters |= state.skipped_filters
    twin.skipped_scores |= state.skipped_scores
    return twin


class Ready(NamedTuple):
    """What came of PreFilter and PreScore of remembered plugins."""

    fixed: bool
    """Whether no PreFilter rejects or narrows: the ordinary case."""
    failure: PluginError | None
    """What a PreScore failed with, which only matters to pods that have nodes to choose from."""


def run_pre_points(
    profile: Profile,
    pre_filters: Sequence[PreFilterPlugin],
    pre_scores: Sequence[PreScorePlugin],
    state: CycleState,
    pod: Pod,
) -> Ready:
    """PreFilter and PreScore of remembered plugins, which depend on the shape alone."""
    nodes = profile.host.cluster.nodes
    fixed = True
    failure: PluginError | None = None
    for plugin in pre_filters:
        answer: PreFilterAnswer = ask_pre_filter(plugin, state, pod, nodes)
        if answer is not None:
            if answer == SKIP:
                state.skipped_filters.add(plugin.name)
            else:
                fixed = False
    for scorer in pre_scores:
        try:
            skips = ask_pre_score(scorer, state, pod, nodes)
        except PluginError as problem:
            failure, skips = failure or problem, True
        if skips:
            state.skipped_scores.add(scorer.name)
    return Ready(fixed, failure)
