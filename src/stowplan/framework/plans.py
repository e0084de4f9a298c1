"""How to decide pods of one shape: whom to ask every time, and what the other plugins say.

A shape that comes for the first time may be the only pod of its kind, so nothing is remembered of it yet.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from operator import itemgetter

from stowplan.cluster import Cluster
from stowplan.cluster.columns import read_only
from stowplan.framework.contract import CycleState, FilterPlugin, ScorePlugin
from stowplan.framework.decision import Rejections
from stowplan.framework.memory import RowMemory, ScoreMemory, ask_filter, ask_score, check_range, normalizes
from stowplan.framework.merged import Columns, MergedColumns, columns_of
from stowplan.framework.profile import Profile
from stowplan.framework.templates import Memories, Template, forked, of_nodes, of_usage, run_pre_points
from stowplan.framework.verdict import Verdict
from stowplan.objects import Pod


class Plan:
    """What a template says, and what the plugins say that look at more of a pod."""

    merged: Columns
    _normalizing: Sequence[tuple[int, ScoreMemory]]

    def __init__(self, profile: Profile, template: Template, pod: Pod) -> None:
        self.profile = profile
        self.cluster: Cluster = profile.host.cluster
        self.pre_filters = template.pre_filters
        self.pre_scores = template.pre_scores
        self.live_filters = template.live_filters
        self.live_scores = template.live_scores
        self.state = forked(template.state)
        own = run_pre_points(profile, template.own_pre_filters, template.own_pre_scores, self.state, pod)
        self.fixed = own.fixed and template.ready.fixed
        """Whether no remembered PreFilter rejects or narrows: the ordinary case."""
        self._failure = template.ready.failure or own.failure
        self._rejections: Rejections | None = None
        self._rejections_version = -1

    def check_scores(self) -> None:
        """Raises what a remembered PreScore failed with. Pods that no node can take, or just one, are never
        scored, so this is not their failure."""
        if self._failure is not None:
            raise self._failure.with_traceback(None)

    def rejections(self) -> Rejections:
        """Why no row takes the pod, as long as nothing must be asked every time. Kept until some row is
        rejected by another filter or for another reason: for thousands of pods that fit nowhere the words
        are made once."""
        if self._rejections is None or self._rejections_version != self.merged.version:
            self._rejections = Rejections(
                self.cluster, rejected_by=read_only(self.merged.rejected_by.copy()), verdicts=self.verdicts()
            )
            self._rejections_version = self.merged.version
        return self._rejections

    def fork_state(self) -> CycleState:
        """A state for one cycle, with what the remembered plugins noted."""
        return forked(self.state)

    def normalizing(self) -> list[tuple[int, ScoreMemory]]:
        """The remembered scores that must be normalised over the nodes that can take the pod, and are not
        the same for all of them."""
        return [one for one in self._normalizing if not one[1].uniform]

    def verdicts(self) -> list[tuple[str, Verdict]]:
        """A verdict for each filter of the profile, in order; those asked at every decision pass every
        node."""
        known = self._known_verdicts()
        blank = Verdict.passes(self.cluster.table.size)
        return [
            (plugin.name, known.get(number, blank)) for number, plugin in enumerate(self.profile.filters, 1)
        ]

    def _known_verdicts(self) -> dict[int, Verdict]:
        raise NotImplementedError


class ShapePlan(Plan):
    """With everything remembered that can be."""

    def __init__(
        self,
        profile: Profile,
        template: Template,
        pod: Pod,
        parts: Mapping[str, Hashable],
        memories: Memories,
    ) -> None:
        super().__init__(profile, template, pod)
        filters = [
            (number, memories.filter(plugin, parts[plugin.name], self.state, pod))
            for number, plugin in template.own_filters
            if plugin.name not in self.state.skipped_filters
        ]
        scores = [
            (weight, memories.score(plugin, parts[plugin.name], self.state, pod))
            for weight, plugin in template.own_scores
            if plugin.name not in self.state.skipped_scores
        ]
        self._filters = sorted((*template.filters, *filters), key=itemgetter(0))
        self._normalizing = [*template.normalizing, *(one for one in scores if one[1].normalizes)]
        plain = [*template.plain_scores, *(one for one in scores if not one[1].normalizes)]
        self.merged = MergedColumns(
            self.cluster,
            memories.node_columns(of_nodes(self._filters), of_nodes(plain)),
            of_usage(self._filters),
            of_usage(plain),
            [memory for _, memory in self._normalizing],
        )

    def _known_verdicts(self) -> dict[int, Verdict]:
        return {number: memory.verdict() for number, memory in self._filters}


class FirstLook(Plan):
    """For one decision: plugins that look at more than the template are asked, but not remembered."""

    merged: FreshColumns

    def __init__(self, profile: Profile, template: Template, pod: Pod) -> None:
        super().__init__(profile, template, pod)
        scorers = [one for one in template.own_scores if one[1].name not in self.state.skipped_scores]
        self._remembered = template.filters
        self._normalizing = [
            *template.normalizing,
            *(
                (weight, ScoreMemory(plugin, self.cluster, self.state, pod))
                for weight, plugin in scorers
                if normalizes(plugin)
            ),
        ]
        self.merged = FreshColumns(
            self.cluster,
            template,
            self.state,
            pod,
            [one for one in template.own_filters if one[1].name not in self.state.skipped_filters],
            [one for one in scorers if not normalizes(one[1])],
            [memory for _, memory in self._normalizing],
        )

    def _known_verdicts(self) -> dict[int, Verdict]:
        return {number: memory.verdict() for number, memory in self._remembered} | self.merged.verdicts


class FreshColumns(Columns):
    """From what some plugins say now, and what is remembered of others for the template."""

    def __init__(
        self,
        cluster: Cluster,
        template: Template,
        state: CycleState,
        pod: Pod,
        filters: Sequence[tuple[int, FilterPlugin]],
        scores: Sequence[tuple[int, ScorePlugin]],
        also_kept: Sequence[RowMemory],
    ) -> None:
        super().__init__(cluster, template.nodes)
        self._template = template
        self._state = state
        self._pod = pod
        self._filters = filters
        self._scores = scores
        self._kept = [*template.usage_memories, *also_kept]
        self.verdicts: dict[int, Verdict] = {}
        """Of the filters that were asked, by their numbers."""

    def refresh(self) -> None:
        for memory in self._kept:
            memory.refresh()
        nodes = self._cluster.nodes
        filters, scores = columns_of(self._template.usage_filters), columns_of(self._template.usage_scores)
        for number, plugin in self._filters:
            verdict = self.verdicts[number] = ask_filter(plugin, self._state, self._pod, nodes)
            filters.append((number, verdict.codes))
        for weight, scorer in self._scores:
            column = ask_score(scorer, self._state, self._pod, nodes)
            check_range(scorer, column)
            scores.append((weight, column))
        self._merge(filters, scores)
