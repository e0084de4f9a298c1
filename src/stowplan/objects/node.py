"""Nodes as a scheduler reads them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType

import msgspec

from stowplan.objects.base import Int64, Record, ResourceList
from stowplan.objects.meta import Condition, KubeObject, Time
from stowplan.objects.quantity import resource_amounts


class Taint(Record, frozen=True):
    """Keeps away the pods that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: Time | None = None


class NodeSpec(Record, frozen=True):
    """What an administrator or controller wants of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(default="", name="providerID")


class ContainerImage(Record, frozen=True):
    """An image that a node has, under all its names."""

    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class NodeStatus(Record, frozen=True):
    """What a node offers."""

    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(KubeObject, frozen=True, dict=True, gc=True, weakref=True):
    """A node that pods can be placed on."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @cached_property
    def allocatable(self) -> Mapping[str, int]:
        """What pods may use in all: cpu in thousandths, everything else in units."""
        return MappingProxyType(resource_amounts(self.status.allocatable))

    @cached_property
    def capacity(self) -> Mapping[str, int]:
        """What the machine has: cpu in thousandths, everything else in units."""
        return MappingProxyType(resource_amounts(self.status.capacity))
