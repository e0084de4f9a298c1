"""Arguments of the plugins that weigh resources: defaults, and what is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stowplan.plugins.noderesources.args import NodeResourcesBalancedAllocationArgs, NodeResourcesFitArgs


def fit(**args: Any) -> NodeResourcesFitArgs:
    return msgspec.convert(args, NodeResourcesFitArgs).completed()


def balanced(**args: Any) -> NodeResourcesBalancedAllocationArgs:
    return msgspec.convert(args, NodeResourcesBalancedAllocationArgs).completed()


def strategy(**fields: Any) -> dict[str, Any]:
    return {"scoringStrategy": {"type": "LeastAllocated"} | fields}


def test_without_a_strategy_cpu_and_memory_count_alike() -> None:
    chosen = fit().scoring_strategy
    assert chosen is not None
    assert chosen.type == "LeastAllocated"
    assert [(resource.name, resource.weight) for resource in chosen.resources] == [("cpu", 1), ("memory", 1)]
    assert fit().problems() == []


def test_a_weight_of_zero_stands_for_one() -> None:
    chosen = fit(**strategy(resources=[{"name": "cpu", "weight": 0}, {"name": "memory", "weight": 3}]))
    assert [resource.weight for resource in chosen.strategy.resources] == [1, 3]
    assert [resource.weight for resource in balanced(resources=[{"name": "cpu"}]).resources] == [1]


SHAPE = "scoringStrategy.requestedToCapacityRatio.shape"


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ({"ignoredResources": ["ok.org/x", "-bad"]}, "ignoredResources[1]"),
        ({"ignoredResourceGroups": ["a/b"]}, "ignoredResourceGroups[0]"),
        ({"ignoredResourceGroups": ["Bad-"]}, "ignoredResourceGroups[0]"),
        (strategy(type="Best"), "scoringStrategy.type"),
        (strategy(type=""), "scoringStrategy.type"),
        (strategy(resources=[{"name": "cpu", "weight": 101}]), "scoringStrategy.resources[0].weight"),
        (strategy(resources=[{"name": "cpu", "weight": -1}]), "scoringStrategy.resources[0].weight"),
        (strategy(requestedToCapacityRatio={}), "scoringStrategy.requestedToCapacityRatio"),
        (strategy(type="RequestedToCapacityRatio"), "scoringStrategy.requestedToCapacityRatio"),
        (strategy(type="RequestedToCapacityRatio", requestedToCapacityRatio={}), SHAPE),
    ],
)
def test_wrong_fit_args_are_told_with_their_path(args: dict[str, Any], path: str) -> None:
    (problem, *_) = fit(**args).problems()
    assert problem[0] == path


@pytest.mark.parametrize(
    ("points", "path"),
    [
        ([(10, 1), (10, 2)], f"{SHAPE}[1].utilization"),
        ([(101, 1)], f"{SHAPE}[0].utilization"),
        ([(-1, 1)], f"{SHAPE}[0].utilization"),
        ([(0, 0), (50, 11)], f"{SHAPE}[1].score"),
        ([(0, -1)], f"{SHAPE}[0].score"),
    ],
)
def test_wrong_shapes_are_told(points: list[tuple[int, int]], path: str) -> None:
    shape = [{"utilization": at, "score": score} for at, score in points]
    ratio = {"requestedToCapacityRatio": {"shape": shape}}
    (problem,) = fit(**strategy(type="RequestedToCapacityRatio", **ratio)).problems()
    assert problem[0] == path


def test_balanced_takes_each_resource_once_with_weight_one() -> None:
    args = balanced(resources=[{"name": "cpu", "weight": 2}, {"name": "cpu"}])
    assert [path for path, _ in args.problems()] == ["resources[0].weight", "resources[1].name"]
    assert balanced().problems() == []
