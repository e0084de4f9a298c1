"""The arguments of the plugins that weigh resources."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec.structs import replace

from stowplan.framework import PluginArgs
from stowplan.objects import Int32, Int64, Record
from stowplan.objects.names import label_key_problem

LEAST_ALLOCATED = "LeastAllocated"
MOST_ALLOCATED = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"
_TYPES = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)

Problems = list[tuple[str, str]]


class ResourceSpec(Record, frozen=True):
    """A resource that counts in scoring, and how much; 0 stands for 1."""

    name: str = ""
    weight: Int64 = 0


class UtilizationShapePoint(Record, frozen=True):
    """A corner of the score function: utilization 0 to 100, score 0 to 10."""

    utilization: Int32 = 0
    score: Int32 = 0


class RequestedToCapacityRatioParam(Record, frozen=True):
    """The score function, by its corners."""

    shape: tuple[UtilizationShapePoint, ...] = ()


DEFAULT_RESOURCES = (ResourceSpec(name="cpu", weight=1), ResourceSpec(name="memory", weight=1))


class ScoringStrategy(Record, frozen=True):
    """How NodeResourcesFit scores."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class NodeResourcesFitArgs(PluginArgs, frozen=True):
    """What NodeResourcesFit leaves out, and how it scores."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy | None = None

    @property
    def strategy(self) -> ScoringStrategy:
        """The scoring strategy, with its default."""
        strategy = self.scoring_strategy or ScoringStrategy(type=LEAST_ALLOCATED)
        return replace(strategy, resources=weighted(strategy.resources))

    def completed(self) -> NodeResourcesFitArgs:
        return replace(self, scoring_strategy=self.strategy)

    def problems(self) -> Problems:
        found: Problems = []
        for i, name in enumerate(self.ignored_resources):
            if problem := label_key_problem(name):
                found.append((f"ignoredResources[{i}]", f'"{name}": {problem}'))
        for i, group in enumerate(self.ignored_resource_groups):
            if "/" in group:
                found.append(
                    (f"ignoredResourceGroups[{i}]", f"\"{group}\": resource group name can't contain '/'")
                )
            if problem := label_key_problem(group):
                found.append((f"ignoredResourceGroups[{i}]", f'"{group}": {problem}'))
        strategy = _strategy_problems(self.strategy)
        return found + [(f"scoringStrategy.{path}", problem) for path, problem in strategy]


class NodeResourcesBalancedAllocationArgs(PluginArgs, frozen=True):
    """Between which resources NodeResourcesBalancedAllocation keeps the balance."""

    resources: tuple[ResourceSpec, ...] = ()

    def completed(self) -> NodeResourcesBalancedAllocationArgs:
        return replace(self, resources=weighted(self.resources))

    def problems(self) -> Problems:
        found: Problems = []
        seen: set[str] = set()
        for i, resource in enumerate(weighted(self.resources)):
            if resource.name in seen:
                found.append((f"resources[{i}].name", f'"{resource.name}" is there twice'))
            seen.add(resource.name)
            if resource.weight != 1:
                found.append((f"resources[{i}].weight", f"{resource.weight} must be 1"))
        return found


def weighted(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    """The resources with their default weight, or the default resources."""
    return tuple(replace(r, weight=r.weight or 1) for r in resources) or DEFAULT_RESOURCES


def shape_problems(shape: Sequence[UtilizationShapePoint]) -> Problems:
    """What is wrong with a score function."""
    if not shape:
        return [("shape", "at least one point must be specified")]
    found: Problems = []
    for i, (before, point) in enumerate(pairwise(shape), 1):
        if before.utilization >= point.utilization:
            path = f"shape[{i}].utilization"
            found.append((path, f"{point.utilization}: values must be sorted in increasing order"))
            break
    for i, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            found.append((f"shape[{i}].utilization", f"{point.utilization} not in valid range [0, 100]"))
        if not 0 <= point.score <= 10:
            found.append((f"shape[{i}].score", f"{point.score} not in valid range [0, 10]"))
    return found


def _strategy_problems(strategy: ScoringStrategy) -> Problems:
    found: Problems = []
    if strategy.type not in _TYPES:
        found.append(("type", f'"{strategy.type}" is none of {", ".join(_TYPES)}'))
    for i, resource in enumerate(strategy.resources):
        if not 0 < resource.weight <= 100:
            problem = f"{resource.weight}: resource weight of {resource.name} not in valid range (0, 100]"
            found.append((f"resources[{i}].weight", problem))
    ratio = strategy.requested_to_capacity_ratio
    if strategy.type != REQUESTED_TO_CAPACITY_RATIO:
        if ratio is not None:
            problem = f"must be absent when type is not {REQUESTED_TO_CAPACITY_RATIO}"
            found.append(("requestedToCapacityRatio", problem))
    elif ratio is None:
        problem = f"must be specified when type is {REQUESTED_TO_CAPACITY_RATIO}"
        found.append(("requestedToCapacityRatio", problem))
    else:
        found += [(f"requestedToCapacityRatio.{path}", p) for path, p in shape_problems(ratio.shape)]
    return found
