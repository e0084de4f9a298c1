"""Profiles of older versions in v1: plugins that are gone, args that moved, weights that were others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from stowplan.config.problems import Problem
from stowplan.config.structure import read_record
from stowplan.config.types import (
    API_GROUP,
    API_VERSION,
    MULTI_POINT,
    SET_ATTRIBUTES,
    ConfigRecord,
    Plugin,
    PluginConfig,
    Plugins,
    PluginSet,
    Profile,
)
from stowplan.config.validate import REMOVED_PLUGINS

_DROPPED: Final = REMOVED_PLUGINS | {
    "SelectorSpread": "the default constraints of PodTopologySpread do its work now",
    "NodePreferAvoidPods": "its node annotation has no effect any more; taint nodes with PreferNoSchedule",
}
"""Plugins that v1 does without, and what there is instead."""

_OLD_WEIGHTS: Final = {"TaintToleration": (1, 3), "NodeAffinity": (1, 2), "InterPodAffinity": (1, 2)}
"""Default weights before v1beta3 and now. The other plugins kept theirs."""

_STRATEGIES: Final = {
    "NodeResourcesLeastAllocated": "LeastAllocated",
    "NodeResourcesMostAllocated": "MostAllocated",
    "RequestedToCapacityRatio": "RequestedToCapacityRatio",
}
"""Score plugins of v1beta1 that are scoring strategies of NodeResourcesFit now."""


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


class _StrategyArgs(ConfigRecord, frozen=True, forbid_unknown_fields=True):
    """Args of the plugins that are scoring strategies now."""

    resources: tuple[dict[str, Any], ...] = ()
    shape: tuple[dict[str, Any], ...] = ()


class _NodeLabelArgs(ConfigRecord, frozen=True, forbid_unknown_fields=True):
    """Args of NodeLabel."""

    present_labels: tuple[str, ...] = ()
    absent_labels: tuple[str, ...] = ()
    present_labels_preference: tuple[str, ...] = ()
    absent_labels_preference: tuple[str, ...] = ()


class _Term(ConfigRecord, frozen=True, forbid_unknown_fields=True):
    match_expressions: tuple[dict[str, Any], ...] = ()
    match_fields: tuple[dict[str, Any], ...] = ()


class _Terms(ConfigRecord, frozen=True, forbid_unknown_fields=True):
    node_selector_terms: tuple[_Term, ...] = ()


class _Affinity(ConfigRecord, frozen=True, forbid_unknown_fields=True):
    required: _Terms | None = msgspec.field(default=None, name=_REQUIRED)
    preferred: tuple[dict[str, Any], ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class _NodeAffinityArgs(ConfigRecord, frozen=True, forbid_unknown_fields=True):
    """As much of the args of NodeAffinity as must be right before something is added to them."""

    added_affinity: _Affinity | None = None


_FIT: Final = "NodeResourcesFit"
_LEAST: Final = "NodeResourcesLeastAllocated"


A = TypeVar("A", bound=ConfigRecord)


class ProfileConversion(NamedTuple):
    """A profile of an older version, in v1."""

    profile: Profile
    warnings: tuple[Problem, ...]
    problems: tuple[Problem, ...]


def convert_profile(profile: Profile, version: str, path: str) -> ProfileConversion:
    """What a profile of `v1beta1`, `v1beta2` or `v1beta3` says, in v1."""
    converter = _Converter(path, version, profile)
    if version == "v1beta1":
        converter.turn_strategies_into_fit_args()
        converter.turn_node_label_into_affinity()
        converter.refuse_service_affinity()
        converter.spell_out_spread_defaulting()
    converter.drop_removed_plugins()
    if version != "v1beta3":
        converter.ignore_multi_point_disabled()
        converter.keep_old_weights()
    return ProfileConversion(converter.result(), tuple(converter.warnings), tuple(converter.problems))


@dataclass
class _Converter:
    """A profile taken apart, changed step by step, and put together again."""

    path: str
    version: str
    profile: Profile
    enabled: dict[str, list[Plugin]] = field(init=False)
    disabled: dict[str, list[str]] = field(init=False)
    configs: list[PluginConfig] = field(init=False)
    warnings: list[Problem] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def __post_init__(self) -> None:
        sets = self.profile.plugins.sets()
        self.enabled = {name: list(one.enabled) for name, one in sets.items()}
        self.disabled = {name: [plugin.name for plugin in one.disabled] for name, one in sets.items()}
        self.configs = [
            msgspec.structs.replace(config, args=_with_current_version(config.args))
            for config in self.profile.plugin_config
        ]

    def result(self) -> Profile:
        sets = {
            attribute: PluginSet(
                enabled=tuple(self.enabled[name]),
                disabled=tuple(Plugin(name=one) for one in self.disabled[name]),
            )
            for name, attribute in SET_ATTRIBUTES.items()
        }
        return msgspec.structs.replace(
            self.profile, plugins=Plugins(**sets), plugin_config=tuple(self.configs)
        )

    def warn(self, message: str, path: str = "plugins") -> None:
        self.warnings.append(Problem(f"{self.path}.{path}", message))

    def fail(self, message: str, path: str = "plugins") -> None:
        self.problems.append(Problem(f"{self.path}.{path}", message))

    def args_of(self, name: str) -> dict[str, Any]:
        """A copy of the args of a plugin; {} where it has none."""
        return next((dict(config.args) for config in self.configs if config.name == name), {})

    def checked_args(self, name: str, kind: type[A]) -> A | None:
        """The args of a plugin as a record; None where there are none, or where they cannot be read."""
        for i, config in enumerate(self.configs):
            if config.name == name:
                data = {key: value for key, value in config.args.items() if key not in ("apiVersion", "kind")}
                return read_record(data, kind, f"{self.path}.pluginConfig[{i}].args", self.problems)
        return None

    def set_args(self, name: str, args: dict[str, Any]) -> None:
        for i, config in enumerate(self.configs):
            if config.name == name:
                self.configs[i] = PluginConfig(name=name, args=args)
                return
        self.configs.append(PluginConfig(name=name, args=args))

    def scores(self, name: str, *, by_default: bool) -> bool:
        """Whether a plugin scores in the old profile."""
        if any(plugin.name == name for plugin in self.enabled["score"]):
            return True
        return by_default and not {"*", name} & set(self.disabled["score"])

    def forget(self, names: Iterable[str], points: Iterable[str] = tuple(SET_ATTRIBUTES)) -> set[str]:
        """Takes plugins out of the profile. The names that had an effect are returned."""
        gone = set(names)
        effective = {config.name for config in self.configs if config.name in gone}
        self.configs = [config for config in self.configs if config.name not in gone]
        for point in points:
            effective |= {plugin.name for plugin in self.enabled[point] if plugin.name in gone}
            self.enabled[point] = [plugin for plugin in self.enabled[point] if plugin.name not in gone]
            self.disabled[point] = [name for name in self.disabled[point] if name not in gone]
        return effective

    def drop_removed_plugins(self) -> None:
        for name in sorted(self.forget(_DROPPED)):
            self.warn(f"the plugin {name} is gone and was left out: {_DROPPED[name]}")

    def ignore_multi_point_disabled(self) -> None:
        """Before v1beta3 the defaults stood at each point, out of reach of `multiPoint.disabled`."""
        if self.disabled[MULTI_POINT]:
            names = ", ".join(self.disabled[MULTI_POINT])
            message = (
                f"disabled nothing in {self.version} and was left out ({names}); in v1 it would take effect"
            )
            self.warn(message, "plugins.multiPoint.disabled")
            self.disabled[MULTI_POINT] = []

    def keep_old_weights(self) -> None:
        for name, (old, new) in _OLD_WEIGHTS.items():
            if any(plugin.name == name for plugin in self.enabled["score"]):
                continue  # has a weight of its own
            if not self.scores(name, by_default=True):
                continue
            if any(plugin.name == name for plugin in self.enabled[MULTI_POINT]):
                self.warn(f"the weight of {name} had no effect at multiPoint in {self.version}; now it has")
                continue
            self.enabled[MULTI_POINT].append(Plugin(name=name, weight=old))
            self.warn(f"{name} keeps its weight of {old}, now written out; the default of v1 is {new}")

    def turn_strategies_into_fit_args(self) -> None:
        """NodeResourcesFit scores in v1, by the one strategy its args name."""
        active = [name for name in _STRATEGIES if self.scores(name, by_default=name == _LEAST)]
        fit_scores = self.scores(_FIT, by_default=False)
        if len(active) + fit_scores > 1:
            names = " and ".join([*active, *([_FIT] if fit_scores else [])])
            self.fail(f"{names} score together; in v1 {_FIT} scores by one strategy, keep one of them")
            self.forget(_STRATEGIES)
            return
        weights = {plugin.name: plugin.weight for plugin in self.enabled["score"]}
        old_args = {name: self.checked_args(name, _StrategyArgs) for name in _STRATEGIES}
        scores_all_off = "*" in self.disabled["score"]
        self.enabled["score"] = [
            msgspec.structs.replace(plugin, name=_FIT) if plugin.name in active else plugin
            for plugin in self.enabled["score"]
        ]
        self.forget(_STRATEGIES)
        if active:
            self.set_strategy(active[0], old_args[active[0]], written=active[0] in weights)
        elif not fit_scores and not scores_all_off:
            self.disabled["score"].append(_FIT)
            self.warn(f"{_LEAST} was disabled at score; in v1 that is {_FIT}", "plugins.score.disabled")

    def set_strategy(self, name: str, old: _StrategyArgs | None, *, written: bool) -> None:
        strategy: dict[str, Any] = {"type": _STRATEGIES[name]}
        if old is not None and old.resources:
            strategy["resources"] = list(old.resources)
        if name == "RequestedToCapacityRatio":
            strategy["requestedToCapacityRatio"] = {"shape": list(old.shape) if old is not None else []}
        fit_args = self.args_of(_FIT)
        if name == _LEAST and len(strategy) == 1 and "scoringStrategy" not in fit_args:
            return  # the default then and now
        self.set_args(_FIT, fit_args | {"scoringStrategy": strategy})
        if written or old is not None:
            self.warn(f"{name} is now the scoringStrategy {strategy['type']} of {_FIT}")

    def turn_node_label_into_affinity(self) -> None:
        args = self.checked_args("NodeLabel", _NodeLabelArgs) or _NodeLabelArgs()
        filters = any(plugin.name == "NodeLabel" for plugin in self.enabled["filter"])
        scores = any(plugin.name == "NodeLabel" for plugin in self.enabled["score"])
        self.forget(["NodeLabel"])
        if scores and (args.present_labels_preference or args.absent_labels_preference):
            message = (
                "NodeLabel is gone, and nothing scores as it did; write preferred terms as the addedAffinity"
            )
            self.fail(f"{message} of NodeAffinity")
        expressions = [{"key": key, "operator": "Exists"} for key in args.present_labels]
        expressions += [{"key": key, "operator": "DoesNotExist"} for key in args.absent_labels]
        if filters and expressions:
            self.require_of_nodes(expressions)
            self.warn("NodeLabel is gone; its labels are now the addedAffinity of NodeAffinity")

    def require_of_nodes(self, expressions: list[dict[str, str]]) -> None:
        """Adds to every required term of the addedAffinity; the terms are alternatives."""
        args = self.args_of("NodeAffinity")
        if args and self.checked_args("NodeAffinity", _NodeAffinityArgs) is None:
            return  # the problem is noted
        affinity = args.get("addedAffinity") or {}
        terms = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
        longer = [
            term | {"matchExpressions": [*(term.get("matchExpressions") or ()), *expressions]}
            for term in terms
        ]
        self.set_args(
            "NodeAffinity", args | {"addedAffinity": affinity | {_REQUIRED: {"nodeSelectorTerms": longer}}}
        )

    def refuse_service_affinity(self) -> None:
        if self.forget(["ServiceAffinity"]):
            self.fail(
                "ServiceAffinity is gone and v1 has nothing like it; use pod affinity, and take it out here"
            )

    def spell_out_spread_defaulting(self) -> None:
        """In v1beta1 a list of constraints was enough to mean `List`."""
        args = self.args_of("PodTopologySpread")
        if args.get("defaultConstraints") and not args.get("defaultingType"):
            self.set_args("PodTopologySpread", args | {"defaultingType": "List"})
            self.warn(
                "PodTopologySpread with defaultConstraints now needs defaultingType: List, which was added"
            )


def _with_current_version(args: dict[str, Any]) -> dict[str, Any]:
    version = args.get("apiVersion")
    if isinstance(version, str) and version.startswith(f"{API_GROUP}/"):
        return args | {"apiVersion": API_VERSION}
    return args
