"""The part that scoring of resources has in common: which resources count for a pod, and how much of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stowplan.cluster import Cluster, IntColumn, NodeRow, Nodes
from stowplan.cluster.extended import extended_resources, may_be_device
from stowplan.cluster.nodetable import NONZERO_CPU, NONZERO_MEMORY
from stowplan.framework import CycleState, ScorePlugin
from stowplan.objects import DeviceClass, Pod
from stowplan.plugins.noderesources.args import ResourceSpec
from stowplan.plugins.noderesources.columns import Load, Offered, ResourceStack
from stowplan.plugins.noderesources.devices import DeviceCounts
from stowplan.plugins.noderesources.names import is_counted, is_scalar

_NONZERO = {"cpu": NONZERO_CPU, "memory": NONZERO_MEMORY}


class Wanted(NamedTuple):
    """What one shape of pod adds to the resources that count for it."""

    stack: ResourceStack
    amounts: tuple[int, ...]
    column: IntColumn
    """The amounts again, as a column of one per resource."""
    devices: tuple[tuple[int, DeviceClass], ...]
    """The places of resources for which devices may stand in, and their classes."""

    @property
    def items(self) -> Iterable[tuple[tuple[int, int, int], int]]:
        """Per resource: where it stands (see `ResourceStack.places`), and how much of it is added."""
        return zip(self.stack.places, self.amounts, strict=True)


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
        self._optional = tuple(one[0] for one in self._resources if is_scalar(one[0]))
        self._stacks: dict[tuple[str, ...], tuple[tuple[str, ...], ResourceStack]] = {}
        self._may_be_devices = tuple(name for name in self.names if may_be_device(name))
        self._classes = extended_resources(cluster)
        self._counts = DeviceCounts(cluster)

    def amounts(self, request: Mapping[str, int]) -> tuple[int, ...]:
        """The pod's request of each resource, as much of it as scoring depends on."""
        return tuple([request.get(name, 0) for name in self.names])

    def devices(self, request: Mapping[str, int]) -> dict[str, DeviceClass]:
        """The classes of devices that may stand in for what the pod requests. Where there are any, other
        things than nodes and the pods on them decide about scores."""
        if not self._may_be_devices:
            return {}
        classes = {name: self._classes.class_of(name) for name in self._may_be_devices if request.get(name)}
        return {name: found for name, found in classes.items() if found is not None}

    def wanted(self, request: Mapping[str, int]) -> Wanted:
        """What pods with this request add, ready for both forms of scoring."""
        names, stack = self._stack(tuple([name for name in self._optional if request.get(name)]))
        amounts = tuple([request.get(name, 0) for name in names])
        classes = self.devices(request)
        devices = (
            tuple((i, classes[name]) for i, name in enumerate(names) if name in classes) if classes else ()
        )
        return Wanted(stack, amounts, np.array(amounts, np.int64)[:, None], devices)

    def load(self, wanted: Wanted, nodes: Nodes, *, with_pod: bool = True) -> Load:
        """How full these nodes get, devices that stand in for resources included."""
        amounts = wanted.column if with_pod else np.zeros_like(wanted.column)
        if not wanted.devices:
            return wanted.stack.loaded(amounts, nodes)
        used, offered = self._with_devices(wanted, nodes)
        return Load.made_of(offered.form(used + amounts), offered)

    def _with_devices(self, wanted: Wanted, nodes: Nodes) -> tuple[IntColumn, Offered]:
        """Of a resource that a node does not offer itself: the devices that stand in for it."""
        used, offered = wanted.stack.used(nodes).copy(), wanted.stack.allocatable(nodes).copy()
        for place, device_class in wanted.devices:
            total, taken = (column[nodes.rows] for column in self._counts.columns(device_class))
            by_devices = (offered[place] == 0) & (total > 0)
            offered[place][by_devices] = total[by_devices]
            used[place][by_devices] = taken[by_devices]
        return used, Offered.made_of(offered)

    def _stack(self, optional: tuple[str, ...]) -> tuple[tuple[str, ...], ResourceStack]:
        """The resources that count for pods which request these of the optional ones: by name, and their
        columns, which such pods share."""
        known = self._stacks.get(optional)
        if known is None:
            counting = [one for one in self._resources if one[0] in optional or not is_scalar(one[0])]
            names, used, offered, weights = zip(*counting, strict=True) if counting else ((), (), (), ())
            known = self._stacks[optional] = names, ResourceStack(self.cluster, used, offered, weights)
        return known


def scored_alone(plugin: ScorePlugin, state: CycleState, pod: Pod, node: NodeRow) -> int:
    """One node's score, in columns of one row."""
    scores = plugin.score(state, pod, Nodes(node.cluster, np.array([node.row])))
    return scores if isinstance(scores, int) else scores.item(0)
