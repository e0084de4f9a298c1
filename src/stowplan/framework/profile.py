"""The plugins of one scheduler name, by extension point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from stowplan.framework.args import PluginArgs
from stowplan.framework.contract import (
    BindPlugin,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
)
from stowplan.framework.handle import Host, ProfileHandle
from stowplan.framework.registry import Registry, RegistryError

DEFAULT_SCHEDULER = "default-scheduler"

P = TypeVar("P", bound=Plugin)


@dataclass(frozen=True)
class ProfilePlan:
    """A profile, checked and ready to be built."""

    scheduler_name: str = DEFAULT_SCHEDULER
    percentage_of_nodes_to_score: int = 0
    """0: all nodes are looked at."""
    points: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For every extension point the names of its plugins, in the order in which they run."""
    weights: Mapping[str, int] = field(default_factory=dict)
    args: Mapping[str, PluginArgs | None] = field(default_factory=dict)
    """For every plugin of the profile its args, complete and checked."""

    @property
    def plugin_names(self) -> tuple[str, ...]:
        """Every plugin that the profile needs built, once."""
        return tuple(self.args)


class Profile:
    """One instance of each plugin, however many points it serves, in the order of every point."""

    def __init__(self, plan: ProfilePlan, registry: Registry, host: Host) -> None:
        self.plan = plan
        self.name = plan.scheduler_name
        self.percentage_of_nodes_to_score = plan.percentage_of_nodes_to_score
        self.host = host
        self.handle = ProfileHandle(host, self)
        self.plugins: dict[str, Plugin] = {}
        for name in plan.plugin_names:
            self.plugins[name] = self._built(registry[name], plan.args[name])

        self.queue_sort = self._at("queueSort", QueueSortPlugin)
        self.pre_enqueue = self._at("preEnqueue", PreEnqueuePlugin)
        self.pre_filters = self._at("preFilter", PreFilterPlugin)
        self.filters = self._at("filter", FilterPlugin)
        self.post_filters = self._at("postFilter", PostFilterPlugin)
        self.pre_scores = self._at("preScore", PreScorePlugin)
        self.scores = self._at("score", ScorePlugin)
        self.reserves = self._at("reserve", ReservePlugin)
        self.permits = self._at("permit", PermitPlugin)
        self.pre_binds = self._at("preBind", PreBindPlugin)
        self.binds = self._at("bind", BindPlugin)
        self.post_binds = self._at("postBind", PostBindPlugin)
        self.weights = {plugin.name: plan.weights.get(plugin.name) or 1 for plugin in self.scores}

    def _built(self, plugin: type[Plugin], args: PluginArgs | None) -> Plugin:
        try:
            return plugin(plugin.Args().completed() if args is None else args, self.handle)
        except Exception as problem:
            raise RegistryError(
                f"plugin {plugin.name} cannot be built for profile {self.name} "
                f"({type(problem).__name__}: {problem}); correct it or take it out of the profile"
            ) from problem

    def _at(self, point: str, kind: type[P]) -> tuple[P, ...]:
        return tuple(cast(Any, self.plugins[name]) for name in self.plan.points.get(point, ()))
