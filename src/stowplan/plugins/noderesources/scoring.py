"""The part that scoring of resources has in common: which resources count for a pod, and how much of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stowplan.cluster import Cluster, IntColumn
from stowplan.cluster.nodetable import NONZERO_CPU, NONZERO_MEMORY
from stowplan.plugins.noderesources.args import ResourceSpec
from stowplan.plugins.noderesources.columns import ResourceStack
from stowplan.plugins.noderesources.names import is_counted, is_scalar

_NONZERO = {"cpu": NONZERO_CPU, "memory": NONZERO_MEMORY}


class Wanted(NamedTuple):
    """What one shape of pod adds to the resources that count for it."""

    stack: ResourceStack
    items: tuple[tuple[int, int, int, int], ...]
    """Per resource: its column in the usage table, in the allocatable table, amount and weight."""
    amounts: IntColumn
    """The amounts again, as a column of one per resource."""


class ScoredResources:
    """The resources that a profile scores by. A pod that asks for none of an extended resource is not
    judged by it."""

    def __init__(self, cluster: Cluster, resources: Sequence[ResourceSpec], *, nonzero: bool) -> None:
        self.cluster = cluster
        self.names = tuple(resource.name for resource in resources)
        self._resources: list[tuple[str, int, int, int]] = []
        for resource in resources:
            if is_counted(resource.name):
                offered = cluster.table.resource_column(resource.name)
                used = _NONZERO.get(resource.name, offered) if nonzero else offered
                self._resources.append((resource.name, used, offered, resource.weight))
        self._stacks: dict[tuple[int, ...], ResourceStack] = {}

    def amounts(self, request: Mapping[str, int]) -> tuple[int, ...]:
        """The pod's request of each resource, as much of it as scoring depends on."""
        return tuple(request.get(name, 0) for name in self.names)

    def wanted(self, request: Mapping[str, int]) -> Wanted:
        items = tuple(
            (used, offered, request.get(name, 0), weight)
            for name, used, offered, weight in self._resources
            if request.get(name, 0) or not is_scalar(name)
        )
        amounts = np.array([item[2] for item in items], np.int64)[:, None]
        return Wanted(self._stack(items), items, amounts)

    def _stack(self, items: Sequence[tuple[int, int, int, int]]) -> ResourceStack:
        """Pods that are judged by the same resources share their columns."""
        used = tuple(item[0] for item in items)
        stack = self._stacks.get(used)
        if stack is None:
            offered = [item[1] for item in items]
            weights = [item[3] for item in items]
            stack = self._stacks[used] = ResourceStack(self.cluster, used, offered, weights)
        return stack
