"""Pods of one shape share a plan: what is remembered of the plugins' answers, and whom to ask every time."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, TypeVar

from stowplan.framework.asking import NO_CONCERN, ask_shape
from stowplan.framework.contract import ASK_ALWAYS
from stowplan.framework.plans import FirstLook, Plan, ShapePlan
from stowplan.framework.points import points_of
from stowplan.framework.profile import Profile
from stowplan.framework.templates import OWN, Memories, Template
from stowplan.objects import Pod

_PLAN_BYTES = 64 << 20
_COLUMNS_PER_PLAN = 6
_MAX_SHAPES = 20_000
_DECIDING = frozenset(("preFilter", "filter", "preScore", "score"))

T = TypeVar("T")


class ShapePlans:
    """The plans of a profile by shape; those used longest ago are forgotten when they take much memory."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._cluster = profile.host.cluster
        self._memories = Memories(self._cluster)
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

    def plan(self, pod: Pod) -> Plan:
        shape = (pod.spec, pod.labels, pod.namespace, pod.controller, pod.node_name)
        if self._version != self._cluster.device_classes.version:
            self._forget_all()
        plan = self._by_shape.get(shape)
        return plan if plan is not None else self._find(shape, pod)

    def _find(self, shape: Hashable, pod: Pod) -> Plan:
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
                return FirstLook(self._profile, template, pod)
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
