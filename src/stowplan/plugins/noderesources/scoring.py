"""The part that scoring of resources has in common: which resources count for a pod, and how much of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stowplan.cluster import Cluster, IntColumn, NodeRow, Nodes
from stowplan.cluster.extended import extended_resources, may_be_device
from stowplan.cluster.nodetable import NONZERO_CPU, NONZERO_MEMORY
from stowplan.framework import CycleState, ScorePlugin
from stowplan.objects import DeviceClass, Pod
from stowplan.plugins.noderesources.args import ResourceSpec
from stowplan.plugins.noderesources.columns import Offered, ResourceStack
from stowplan.plugins.noderesources.devices import DeviceCounts
from stowplan.plugins.noderesources.names import is_counted, is_scalar

_NONZERO = {"cpu": NONZERO_CPU, "memory": NONZERO_MEMORY}


class Wanted(NamedTuple):
    """What one shape of pod adds to the resources that count for it."""

    stack: ResourceStack
    items: tuple[tuple[int, int, int, int], ...]
    """Per resource: its column in the usage table, in the allocatable table, amount and weight."""
    amounts: IntColumn
    """The amounts again, as a column of one per resource."""
    devices: tuple[tuple[int, DeviceClass], ...]
    """The places of resources for which devices may stand in, and their classes."""


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
        self._may_be_devices = tuple(name for name in self.names if may_be_device(name))
        self._classes = extended_resources(cluster)
        self._counts = DeviceCounts(cluster)

    def amounts(self, request: Mapping[str, int]) -> tuple[int, ...]:
        """The pod's request of each resource, as much of it as scoring depends on."""
        return tuple(request.get(name, 0) for name in self.names)

    def devices(self, request: Mapping[str, int]) -> dict[str, DeviceClass]:
        """The classes of devices that may stand in for what the pod requests. Where there are any, other
        things than nodes and the pods on them decide about scores."""
        if not self._may_be_devices:
            return {}
        classes = {name: self._classes.class_of(name) for name in self._may_be_devices if request.get(name)}
        return {name: found for name, found in classes.items() if found is not None}

    def wanted(self, request: Mapping[str, int]) -> Wanted:
        """What pods with this request add, ready for both forms of scoring."""
        counting = [one for one in self._resources if request.get(one[0], 0) or not is_scalar(one[0])]
        items = tuple(
            (used, offered, request.get(name, 0), weight) for name, used, offered, weight in counting
        )
        amounts = np.array([item[2] for item in items], np.int64)[:, None]
        classes = self.devices(request)
        devices = tuple((i, classes[one[0]]) for i, one in enumerate(counting) if one[0] in classes)
        return Wanted(self._stack(items), items, amounts, devices)

    def columns(self, wanted: Wanted, nodes: Nodes) -> tuple[IntColumn, Offered]:
        """What these nodes use and offer of the resources, devices that stand in for one included."""
        used, offered = wanted.stack.used(nodes), wanted.stack.offered(nodes)
        if not wanted.devices:
            return used, offered
        used, whole = used.copy(), offered.whole.copy()
        for place, device_class in wanted.devices:
            total, taken = (column[nodes.rows] for column in self._counts.columns(device_class))
            by_devices = (whole[place] == 0) & (total > 0)
            whole[place][by_devices] = total[by_devices]
            used[place][by_devices] = taken[by_devices]
        return used, Offered.made_of(whole)

    def _stack(self, items: Sequence[tuple[int, int, int, int]]) -> ResourceStack:
        """Pods that are judged by the same resources share their columns."""
        used = tuple(item[0] for item in items)
        stack = self._stacks.get(used)
        if stack is None:
            offered = [item[1] for item in items]
            weights = [item[3] for item in items]
            stack = self._stacks[used] = ResourceStack(self.cluster, used, offered, weights)
        return stack


def scored_alone(plugin: ScorePlugin, state: CycleState, pod: Pod, node: NodeRow) -> int:
    """One node's score, in columns of one row."""
    scores = plugin.score(state, pod, Nodes(node.cluster, np.array([node.row])))
    return scores if isinstance(scores, int) else scores.item(0)
