"""From a complete configuration to profiles: which plugins run at which extension point, in which order, with
which weights and args.

Plugins are known here by `PluginInfo` alone, so that a registry of any making will do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from stowplan.config.problems import ConfigError, Problem, child, shown
from stowplan.config.reading import OWN_PLUGINS
from stowplan.config.structure import read_record
from stowplan.config.types import (
    API_GROUP,
    API_VERSION,
    EXTENSION_POINTS,
    MULTI_POINT,
    Extender,
    KubeSchedulerConfiguration,
    Plugin,
    PluginConfig,
    Plugins,
    Profile,
)
from stowplan.config.validate import REMOVED_PLUGINS
from stowplan.framework.args import PluginArgs
from stowplan.framework.contract import Plugin as PluginClass
from stowplan.framework.points import points_of
from stowplan.framework.profile import ProfilePlan

_MAX_SCORE: Final = 100
_MAX_TOTAL_SCORE: Final = 2**63 - 1
_FIT: Final = "NodeResourcesFit"

_NOTHING_TO_DO: Final = {
    "TaintToleration": "preScore",
    "DefaultPreemption": "preEnqueue",
    _FIT: "placementScore",
}
"""Points that plugins serve upstream and need not serve here: a file may name them there, without effect."""


class PluginInfo(NamedTuple):
    """What there is to know about a plugin before it is built."""

    name: str
    points: frozenset[str]
    """The extension points it serves, by their names in a configuration: `preFilter`, `score`."""
    args_type: type[PluginArgs] | None = None
    """The record of its args; none, or the plain `PluginArgs`, when it takes no args."""


def known_plugins(registry: Mapping[str, type[PluginClass]]) -> dict[str, PluginInfo]:
    """The plugin classes of a registry as they are known here."""
    return {name: PluginInfo(name, points_of(plugin), plugin.Args) for name, plugin in registry.items()}


class Resolution(NamedTuple):
    """What came of resolving the profiles. With problems, the profiles are not to be used."""

    profiles: tuple[ProfilePlan, ...]
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


def resolve_profiles(
    configuration: KubeSchedulerConfiguration, registry: Mapping[str, PluginInfo]
) -> tuple[ProfilePlan, ...]:
    """The profiles of a complete configuration; `ConfigError` with everything wrong about their plugins."""
    resolution = resolve(configuration, registry)
    if resolution.problems:
        raise ConfigError(resolution.problems)
    return resolution.profiles


def resolve(
    configuration: KubeSchedulerConfiguration,
    registry: Mapping[str, PluginInfo],
    written: KubeSchedulerConfiguration | None = None,
) -> Resolution:
    """The profiles of a complete configuration, with problems and warnings instead of an exception.

    `written` is the same configuration before it was completed: places are named as they are there.
    """
    ignored = _resources_ignored(configuration.extenders)
    as_written = written.profiles if written is not None and written.profiles else configuration.profiles
    resolvers = [
        _ProfileResolver(f"profiles[{i}]", profile, original, registry)
        for i, (profile, original) in enumerate(zip(configuration.profiles, as_written, strict=True))
    ]
    specs = tuple(one.resolve(configuration.percentage_of_nodes_to_score, ignored) for one in resolvers)
    problems = [problem for one in resolvers for problem in one.problems]
    problems += _queue_sort_problems(configuration.profiles, specs)
    warnings = [warning for one in resolvers for warning in one.warnings]
    return Resolution(specs, tuple(dict.fromkeys(problems)), tuple(dict.fromkeys(warnings)))


def _resources_ignored(extenders: Iterable[Extender]) -> list[str]:
    return [
        resource.name
        for extender in extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    ]


def _queue_sort_problems(profiles: Sequence[Profile], specs: Sequence[ProfilePlan]) -> Iterable[Problem]:
    """There is one queue, so every profile must sort it alike. Where the sets of the point differ already,
    validation has said so."""
    first = specs[0].points["queueSort"]
    for i, (profile, spec) in enumerate(zip(profiles, specs, strict=True)):
        own = spec.points["queueSort"]
        if len(own) != 1 or len(first) != 1 or profile.plugins.queue_sort != profiles[0].plugins.queue_sort:
            continue
        path = f"profiles[{i}].plugins"
        if own != first:
            yield Problem(
                path, f"sorts the queue by {own[0]}, but profiles[0] by {first[0]}: they share a queue"
            )
        elif spec.args[own[0]] != specs[0].args[own[0]]:
            yield Problem(
                f"profiles[{i}].pluginConfig", f"the args of {own[0]} must be the same in all profiles"
            )


@dataclass
class _ProfileResolver:
    path: str
    profile: Profile
    written: Profile
    registry: Mapping[str, PluginInfo]
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    def resolve(self, percentage: int, ignored_resources: list[str]) -> ProfilePlan:
        plugins = self.profile.plugins
        self.note_unknown_plugins(plugins)
        points = {point: self.expand(point, plugins) for point in EXTENSION_POINTS}
        self.check_required(points)
        own_percentage = self.profile.percentage_of_nodes_to_score
        return ProfilePlan(
            scheduler_name=self.profile.scheduler_name or "",
            percentage_of_nodes_to_score=percentage if own_percentage is None else own_percentage,
            points=points,
            weights=self.weights(plugins, points["score"]),
            args=self.all_args(plugins, ignored_resources),
        )

    def place(self, point: str, name: str) -> str:
        """Where a plugin is enabled, as the file has it; the last place if there are several."""
        enabled = self.written.plugins.at(point).enabled
        indexes = [i for i, plugin in enumerate(enabled) if plugin.name == name]
        path = f"{self.path}.plugins.{point}"
        return f"{path}.enabled[{indexes[-1]}]" if indexes else path

    def report(self, point: str, name: str, message: str) -> None:
        self.problems.append(Problem(self.place(point, name), message))

    def note_unknown_plugins(self, plugins: Plugins) -> None:
        for point, plugin_set in plugins.sets().items():
            for plugin in plugin_set.enabled:
                if plugin.name in self.registry or (plugin.name in REMOVED_PLUGINS and point != MULTI_POINT):
                    continue  # removed plugins are validation's to report, which leaves out multiPoint
                similar = difflib.get_close_matches(plugin.name, list(self.registry), n=1, cutoff=0.7)
                hint = f" (did you mean {similar[0]}?)" if similar else ""
                hint = f": {REMOVED_PLUGINS[plugin.name]}" if plugin.name in REMOVED_PLUGINS else hint
                self.report(point, plugin.name, f"there is no plugin {shown(plugin.name)}{hint}")

    def expand(self, point: str, plugins: Plugins) -> tuple[str, ...]:
        """The plugins of a point in order: those of `multiPoint` that the point's own list repeats, in the
        order of that list; the others of `multiPoint`; the rest of the point's own list."""
        own = self.own_plugins(point, plugins)
        disabled = plugins.at(point).disabled_names
        if "*" in disabled:
            return tuple(own)
        repeated: set[str] = set()
        inherited: list[str] = []
        for plugin in plugins.multi_point.enabled:
            info = self.registry.get(plugin.name)
            if info is None or point not in info.points or plugin.name in disabled:
                continue
            if plugin.name in own:
                repeated.add(plugin.name)
            elif plugin.name in inherited:
                self.report(MULTI_POINT, plugin.name, f"{plugin.name} is enabled twice")
            else:
                inherited.append(plugin.name)
        first = [name for name in own if name in repeated]
        last = [name for name in own if name not in repeated]
        return (*first, *inherited, *last)

    def own_plugins(self, point: str, plugins: Plugins) -> list[str]:
        """What the point's own list enables, as far as it may."""
        names: list[str] = []
        for plugin in plugins.at(point).enabled:
            info = self.registry.get(plugin.name)
            if info is None or (point not in info.points and _NOTHING_TO_DO.get(plugin.name) == point):
                continue
            if point not in info.points:
                serves = ", ".join(one for one in EXTENSION_POINTS if one in info.points)
                self.report(point, plugin.name, f"{plugin.name} has no {point}; it serves {serves}")
            elif plugin.name in names:
                self.report(point, plugin.name, f"{plugin.name} is enabled twice")
            else:
                names.append(plugin.name)
        return names

    def check_required(self, points: Mapping[str, tuple[str, ...]]) -> None:
        path, sorters = f"{self.path}.plugins", points["queueSort"]
        if not sorters:
            self.problems.append(
                Problem(path, "no plugin sorts the queue; enable PrioritySort or another one")
            )
        elif len(sorters) > 1:
            names = " and ".join(sorters)
            message = f"{names} both sort the queue; disable all but one of them at queueSort"
            self.problems.append(Problem(path, message))
        if not points["bind"]:
            self.problems.append(Problem(path, "no plugin binds pods; enable DefaultBinder or another one"))
        if len(points["placementGenerate"]) > 1:
            self.problems.append(Problem(path, "at most one plugin can generate placements"))

    def weights(self, plugins: Plugins, scoring: tuple[str, ...]) -> dict[str, int]:
        """The weight of each plugin that scores. The list of the point wins over `multiPoint`; none is 1."""
        weights: dict[str, int] = {}
        total = 0
        for plugin in (*plugins.score.enabled, *plugins.multi_point.enabled):
            info = self.registry.get(plugin.name)
            if info is None or "score" not in info.points or plugin.name in weights:
                continue
            if total < 0:  # upstream computes what is left of 64 bits, which overflows then
                message = f"the weights before {plugin.name} add up to less than 0, which is refused upstream"
                self.report("score", plugin.name, message)
                break
            weights[plugin.name] = plugin.weight or 1
            total += weights[plugin.name] * _MAX_SCORE
            if total > _MAX_TOTAL_SCORE:
                self.report(
                    "score", plugin.name, "the weights are so large that the total score could overflow"
                )
                break
        return {name: weight for name, weight in weights.items() if name in scoring}

    def all_args(self, plugins: Plugins, ignored_resources: list[str]) -> dict[str, PluginArgs]:
        """The args of every enabled plugin. Args of other plugins are checked, as far as they are known."""
        enabled = {
            plugin.name: None for plugin in _enabled_somewhere(plugins) if plugin.name in self.registry
        }
        configs = {config.name: (i, config) for i, config in enumerate(self.profile.plugin_config)}
        for name, (i, _) in configs.items():
            if name not in enabled and name not in REMOVED_PLUGINS:
                message = f"{name} is not enabled in this profile; its args have no effect"
                self.warnings.append(Problem(f"{self.path}.pluginConfig[{i}]", message))
            if name not in enabled and name in self.registry:
                self.read_args(self.registry[name], configs[name], [])
        return {
            name: self.read_args(
                self.registry[name], configs.get(name), ignored_resources if name == _FIT else []
            )
            for name in enabled
        }

    def read_args(
        self, info: PluginInfo, given: tuple[int, PluginConfig] | None, ignored_resources: list[str]
    ) -> PluginArgs:
        path = f"{self.path}.pluginConfig" + (f"[{given[0]}]" if given else "")
        data: dict[str, Any] = dict(given[1].args) if given else {}
        path = child(path, "args")
        self.check_type_of_args(info.name, data.pop("apiVersion", None), data.pop("kind", None), path)
        if (
            ignored_resources
        ):  # what extenders take over is not the scheduler's to check, whatever the args say
            data["ignoredResources"] = ignored_resources
        if info.args_type is None or info.args_type is PluginArgs:
            if data:
                self.warnings.append(Problem(path, f"{info.name} takes no args; they have no effect"))
            return PluginArgs()
        args = read_record(data, info.args_type, path, self.problems)
        if args is None:
            return PluginArgs()  # never used: its problems are noted
        args = args.completed()
        self.problems += [Problem(child(path, inner), message) for inner, message in args.problems()]
        return args

    def check_type_of_args(self, name: str, version: object, kind: object, path: str) -> None:
        if kind is not None and kind != f"{name}Args":
            message = f'{shown(kind)} must be "{name}Args", or be left out'
            self.problems.append(Problem(child(path, "kind"), message))
        is_ours = name in OWN_PLUGINS or str(version).startswith(f"{API_GROUP}/")
        if version is not None and is_ours and version != API_VERSION:
            self.problems.append(
                Problem(child(path, "apiVersion"), f'{shown(version)} must be "{API_VERSION}"')
            )


def _enabled_somewhere(plugins: Plugins) -> Iterable[Plugin]:
    yield from plugins.multi_point.enabled
    for point in EXTENSION_POINTS:
        yield from plugins.at(point).enabled
