"""The in-tree plugins as a registry shows them to the configuration: names, points and, for some, args.

A table of its own, so that these tests say what a configuration does whatever the plugins do.
"""

from __future__ import annotations

from typing import Self

import msgspec
import pytest

from stowplan.config.load import Loaded, load_configuration
from stowplan.config.problems import ConfigError
from stowplan.config.profiles import PluginInfo
from stowplan.framework.args import PluginArgs
from stowplan.framework.profile import ProfilePlan
from stowplan.objects.base import Record
from stowplan.objects.duration import Duration


class ResourceSpec(Record, frozen=True):
    name: str
    weight: int = 0


class ShapePoint(Record, frozen=True):
    utilization: int
    score: int


class RatioParam(Record, frozen=True):
    shape: tuple[ShapePoint, ...] = ()


class ScoringStrategy(Record, frozen=True):
    type: str = "LeastAllocated"
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RatioParam | None = None


class FitArgs(PluginArgs, frozen=True):
    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy()

    def completed(self) -> Self:
        strategy = self.scoring_strategy
        resources = strategy.resources or (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))
        resources = tuple(msgspec.structs.replace(one, weight=one.weight or 1) for one in resources)
        return msgspec.structs.replace(
            self, scoring_strategy=msgspec.structs.replace(strategy, resources=resources)
        )

    def problems(self) -> list[tuple[str, str]]:
        return [
            (f"scoringStrategy.resources[{i}].weight", f"{one.weight} is not between 1 and 100")
            for i, one in enumerate(self.scoring_strategy.resources)
            if not 0 < one.weight <= 100
        ]


class DynamicResourcesArgs(PluginArgs, frozen=True):
    filter_timeout: Duration = Duration.parse("10s")
    binding_timeout: Duration = Duration.parse("10m")


class InterPodAffinityArgs(PluginArgs, frozen=True):
    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class PrioritySortArgs(PluginArgs, frozen=True):
    """Upstream's has none; here it shows that the args of the queue sort must agree."""

    oldest_first: bool = True


def _info(name: str, points: str, args_type: type[PluginArgs] | None = None) -> tuple[str, PluginInfo]:
    return name, PluginInfo(name, frozenset(points.split()), args_type)


IN_TREE: dict[str, PluginInfo] = dict(
    [
        _info("SchedulingGates", "preEnqueue"),
        _info("PrioritySort", "queueSort", PrioritySortArgs),
        _info("NodeUnschedulable", "filter"),
        _info("NodeName", "filter"),
        _info("TaintToleration", "filter preScore score"),
        _info("NodeAffinity", "preFilter filter preScore score"),
        _info("NodePorts", "preFilter filter"),
        _info("NodeResourcesFit", "preFilter filter preScore score", FitArgs),
        _info("VolumeRestrictions", "preFilter filter"),
        _info("NodeVolumeLimits", "preFilter filter"),
        _info("VolumeBinding", "preFilter filter preScore score reserve preBind"),
        _info("VolumeZone", "preFilter filter"),
        _info("PodTopologySpread", "preFilter filter preScore score"),
        _info("InterPodAffinity", "preFilter filter preScore score", InterPodAffinityArgs),
        _info(
            "DynamicResources",
            "preEnqueue preFilter filter postFilter score reserve preBind",
            DynamicResourcesArgs,
        ),
        _info("DefaultPreemption", "preEnqueue postFilter"),
        _info("NodeResourcesBalancedAllocation", "preScore score"),
        _info("ImageLocality", "score"),
        _info("DefaultBinder", "bind"),
        _info("NodeDeclaredFeatures", "preFilter filter"),
    ]
)
"""The plugins of a default build."""

REGISTRY: dict[str, PluginInfo] = IN_TREE | dict(
    [
        _info("QOSSort", "queueSort"),
        _info("Coscheduling", "preFilter postFilter reserve permit postBind"),
        _info("SameRack", "filter score", PluginArgs),
        _info("OtherBinder", "bind"),
        _info("PlacementA", "placementGenerate placementScore"),
        _info("PlacementB", "placementGenerate"),
    ]
)
"""Those and some from outside."""

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def load(body: str = "", header: str = HEADER) -> Loaded:
    """What a file with this body under the usual header loads as."""
    return load_configuration((header + body).encode(), "scheduler.yaml", REGISTRY)


def problems(body: str, header: str = HEADER) -> tuple[str, ...]:
    """The lines of the error that such a file gives."""
    with pytest.raises(ConfigError) as caught:
        load(body, header)
    return caught.value.lines


def plan(plugins: str, header: str = HEADER) -> ProfilePlan:
    """The plan of the only profile, given the (flow style) YAML of its plugins."""
    return load(f"profiles: [{{plugins: {plugins}}}]", header).profiles[0]
