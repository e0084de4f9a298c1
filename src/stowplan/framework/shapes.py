"""Pods of one shape share a plan: what is remembered of the plugins' answers, and whom to ask every time."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from operator import itemgetter
from typing import Any, TypeVar

from stowplan.cluster import Cluster
from stowplan.framework.asking import NO_CONCERN, ask_shape
from stowplan.framework.contract import ASK_ALWAYS, CycleState, points_of
from stowplan.framework.decision import Rejections
from stowplan.framework.memory import ScoreMemory
from stowplan.framework.merged import MergedColumns
from stowplan.framework.profile import Profile
from stowplan.framework.templates import (
    OWN,
    Memories,
    SharedMemories,
    Template,
    forked,
    of_nodes,
    of_usage,
    run_pre_points,
)
from stowplan.framework.verdict import Verdict
from stowplan.objects import Pod

_PLAN_BYTES = 64 << 20
_COLUMNS_PER_PLAN = 6
_MAX_SHAPES = 20_000
_DECIDING = frozenset(("preFilter", "filter", "preScore", "score"))

T = TypeVar("T")


class ShapePlan:
    """How to decide pods of one shape: a template, and what the plugins say that look at more of a pod."""

    def __init__(
        self,
        profile: Profile,
        template: Template,
        pod: Pod,
        parts: Mapping[str, Hashable],
        memories: Memories,
    ) -> None:
        self.profile = profile
        self.cluster: Cluster = profile.host.cluster
        self.pre_filters = template.pre_filters
        self.pre_scores = template.pre_scores
        self.live_filters = template.live_filters
        self.live_scores = template.live_scores
        self.state = forked(template.state)
        fixed = run_pre_points(profile, template.own_pre_filters, template.own_pre_scores, self.state, pod)
        self.fixed = fixed and template.fixed
        """Whether no remembered PreFilter rejects or narrows: the ordinary case."""

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
        if all(memory.reads_usage for _, memory in (*filters, *scores)):
            nodes = template.nodes
        else:
            nodes = memories.node_columns(of_nodes(self._filters), of_nodes(plain))
        self.merged = MergedColumns(
            self.cluster,
            nodes,
            of_usage(self._filters),
            of_usage(plain),
            [memory for _, memory in self._normalizing],
        )
        self._rejections: Rejections | None = None
        self._rejections_version = -1

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
        return forked(self.state)

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


class ShapePlans:
    """The plans of a profile by shape; those used longest ago are forgotten when they take much memory."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._cluster = profile.host.cluster
        self._memories = SharedMemories(self._cluster)
        self._private = Memories(self._cluster)
        judges = [one for one in profile.plugins.values() if not points_of(type(one)).isdisjoint(_DECIDING)]
        self._asked_by_template = [one for one in judges if one.shaped_by_template]
        self._asked_by_shape = [one for one in judges if not one.shaped_by_template]
        self._by_shape: dict[Hashable, ShapePlan] = {}
        self._plans: dict[Hashable, ShapePlan] = {}
        self._by_outline: dict[Hashable, Template] = {}
        self._templates: dict[Hashable, Template] = {}
        self._seen: dict[int, None] = {}
        """Shapes (by their hashes) that came once. Only what comes again is worth remembering."""
        self._version = self._cluster.device_classes.version

    def plan(self, pod: Pod) -> ShapePlan:
        shape = (pod.spec, pod.labels, pod.namespace, pod.controller, pod.node_name)
        if self._version != self._cluster.device_classes.version:
            self._forget_all()
        plan = self._by_shape.get(shape)
        return plan if plan is not None else self._find(shape, pod)

    def _find(self, shape: Hashable, pod: Pod) -> ShapePlan:
        """Different shapes may ask all plugins the same: they share a plan."""
        parts = {plugin.name: ask_shape(plugin, pod) for plugin in self._asked_by_shape}
        template = self._template(pod, parts)
        key = (template, *parts.values())
        plan = self._plans.get(key)
        if plan is None:
            seen = hash(key)
            if seen not in self._seen:
                self._seen[seen] = None
                _trim(self._seen, _MAX_SHAPES)
                return ShapePlan(self._profile, template, pod, parts, self._private)
            plan = self._plans[key] = ShapePlan(self._profile, template, pod, parts, self._memories)
            if _trim(self._plans, self._most):
                self._by_shape.clear()
        self._by_shape[shape] = plan
        if len(self._by_shape) > _MAX_SHAPES:
            self._by_shape.clear()
        return plan

    def _template(self, pod: Pod, parts: Mapping[str, Hashable]) -> Template:
        """Different templates may ask all plugins the same, too."""
        kinds = [part if part is ASK_ALWAYS or part is NO_CONCERN else OWN for part in parts.values()]
        outline = (pod.spec.template, pod.node_name, *kinds)
        template = self._by_outline.get(outline)
        if template is None:
            known = dict(zip(parts, kinds, strict=True))
            known |= {plugin.name: ask_shape(plugin, pod) for plugin in self._asked_by_template}
            key = tuple(known.values())
            template = self._templates.get(key)
            if template is None:
                template = self._templates[key] = Template(self._profile, pod, known, self._memories)
                if _trim(self._templates, self._most):
                    self._by_outline.clear()
            self._by_outline[outline] = template
            _trim(self._by_outline, _MAX_SHAPES)
        return template

    @property
    def _most(self) -> int:
        """How many plans the memory for them is good for."""
        return max(16, _PLAN_BYTES // (self._cluster.table.capacity * 8 * _COLUMNS_PER_PLAN))

    def _forget_all(self) -> None:
        """A device class says which resources devices may stand in for: shapes depend on that."""
        for known in (self._by_shape, self._plans, self._by_outline, self._templates, self._seen):
            known.clear()
        self._version = self._cluster.device_classes.version


def _trim(known: dict[T, Any], most: int) -> bool:
    """Over the limit, the older half goes: what is still in use comes back soon."""
    if len(known) <= most:
        return False
    for key in list(known)[: most // 2]:
        del known[key]
    return True
