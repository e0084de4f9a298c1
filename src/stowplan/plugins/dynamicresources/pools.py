"""Pools of devices: which of them a node can reach, and in which order they are tried.

Drivers publish a pool as one or more slices, and replace it slice by slice with a newer generation. A
pool of which slices are missing is incomplete, one that contradicts itself is invalid; devices of
neither can be had.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from stowplan.objects import Node
from stowplan.objects.devices import Device, ResourceSlice
from stowplan.objects.quantity import nano_value
from stowplan.plugins.dynamicresources.capacity import Capacity, prepare_capacity
from stowplan.plugins.dynamicresources.cel import SelectorDevice
from stowplan.plugins.dynamicresources.reach import ReachError, reaches
from stowplan.plugins.dynamicresources.state import AllocatedState, Amounts, DeviceID, PoolID


class PoolDevice:
    """A device of a slice. Lives as long as its slice is unchanged; what is derived from it is worked out
    when a search first comes to it, because most searches end at the first device."""

    def __init__(self, device: Device, owner: Slice) -> None:
        self.device = device
        self.slice = owner
        self.id: DeviceID = (*owner.pool_id, device.name)
        self.shared = device.allow_multiple_allocations
        self.matches: dict[object, bool | tuple[int, str]] = {}
        """What requests found out about this device: whether it is selected, or which selector failed."""

    @cached_property
    def capacities(self) -> dict[str, Capacity]:
        return {name: prepare_capacity(capacity) for name, capacity in self.device.capacity.items()}

    @cached_property
    def always_has_room(self) -> bool:
        """Whether a request that names no amounts needs no look at the capacities."""
        return not self.shared and all(capacity.policy is None for capacity in self.capacities.values())

    @cached_property
    def counters(self) -> tuple[tuple[str, Amounts], ...]:
        """What the device takes out of which counter sets while it is in use."""
        return tuple(
            (use.counter_set, {name: nano_value(counter.value) for name, counter in use.counters.items()})
            for use in self.device.consumes_counters
        )

    @cached_property
    def seen(self) -> SelectorDevice:
        """What CEL selectors see of the device."""
        return SelectorDevice(self.id[0], self.device.attributes, self.device.capacity, self.shared)


class Slice:
    """A slice with its devices made ready."""

    __slots__ = ("devices", "generation", "name", "pool_id", "record", "size", "waits_for_conditions")

    def __init__(self, record: ResourceSlice) -> None:
        self.record = record
        self.name = record.name
        self.pool_id: PoolID = (record.spec.driver, record.spec.pool.name)
        self.generation = record.spec.pool.generation
        self.size = record.spec.pool.resource_slice_count
        """Of how many slices the pool consists."""
        self.devices = [PoolDevice(device, self) for device in record.spec.devices]
        self.waits_for_conditions = any(device.binding_conditions for device in record.spec.devices)

    def relevant(self, node: Node) -> bool:
        """Whether any device might be used from the node."""
        spec = self.record.spec
        try:
            if spec.node_name or spec.all_nodes or spec.node_selector is not None:
                return reaches(node, spec.node_name, spec.all_nodes, spec.node_selector)
        except ReachError as problem:
            raise ReachError(f"failed to perform node selection for slice {self.name}: {problem}") from None
        return spec.per_device_node_selection and any(self.here(device, node) for device in self.devices)

    def here(self, device: PoolDevice, node: Node) -> bool:
        """Whether the node can use the device, given that it can use the slice."""
        if not self.record.spec.per_device_node_selection:
            return True
        known = device.device
        try:
            return reaches(node, known.node_name, known.all_nodes, known.node_selector)
        except ReachError as problem:
            where = f"device {known.name} in slice {self.name}"
            raise ReachError(f"failed to perform node selection for {where}: {problem}") from None


class Pool:
    """A pool as one node sees it. `slices` have devices for the node, `elsewhere` are its other slices."""

    def __init__(self, pool_id: PoolID) -> None:
        self.id = pool_id
        self.incomplete = False
        self.invalid = False
        self.slices: list[Slice] = []
        self.elsewhere: list[Slice] = []
        self.counter_sets: dict[str, Amounts] = {}
        self._available: dict[str, Amounts] = {}
        self._stamp = -1

    @property
    def usable(self) -> bool:
        return not self.incomplete and not self.invalid

    @property
    def name(self) -> str:
        return "/".join(self.id)

    @property
    def waits_for_conditions(self) -> bool:
        """Whether some device becomes ready only after it was chosen; such pools are tried last."""
        return any(owner.waits_for_conditions for owner in self.slices)

    def available_counters(self, state: AllocatedState) -> dict[str, Amounts]:
        """What allocated devices have left of the pool's counters; may be less than nothing."""
        if self._stamp != state.version:
            self._available = self._count(state)
            self._stamp = state.version
        return self._available

    def _count(self, state: AllocatedState) -> dict[str, Amounts]:
        available = {name: dict(counters) for name, counters in self.counter_sets.items()}
        for owner in (*self.slices, *self.elsewhere):
            for device in owner.devices:
                if device.device.consumes_counters and state.is_allocated(device.id):
                    for counter_set, amounts in device.counters:
                        left = available[counter_set]
                        for name, amount in amounts.items():
                            left[name] -= amount
        return available


def newest(slices: Iterable[Slice]) -> list[Slice]:
    """The slices of the newest generation, by name."""
    ordered = sorted(slices, key=lambda one: one.name)
    generation = max((one.generation for one in ordered), default=0)
    return [one for one in ordered if one.generation == generation]


def build_pool(pool_id: PoolID, relevant: Iterable[Slice], every: Iterable[Slice]) -> Pool | None:
    """A pool from its relevant slices, given all that are published for it; None when it is obsolete."""
    slices = newest(relevant)
    others: list[Slice] = []
    pool = Pool(pool_id)
    if len(slices) != slices[0].size:
        current = newest(every)
        if current[0].generation != slices[0].generation:
            return None
        if len(current) != slices[0].size:
            pool.incomplete = True
            return pool
        names = {one.name for one in slices}
        others = [one for one in current if one.name not in names]
    devices = [one for one in slices if not one.record.spec.shared_counters]
    counter_sets = _counter_sets(slices)
    if (
        _repeats_a_device(devices)
        or counter_sets is None
        or not _counters_known(counter_sets, [*slices, *others])
    ):
        pool.invalid = True
        return pool
    pool.slices, pool.elsewhere, pool.counter_sets = devices, others, counter_sets
    return pool


def _repeats_a_device(slices: Iterable[Slice]) -> bool:
    names = [device.device.name for owner in slices for device in owner.devices]
    return len(set(names)) < len(names)


def _counter_sets(slices: Iterable[Slice]) -> dict[str, Amounts] | None:
    """The counters of a pool by set, or None when two sets have one name."""
    found: dict[str, Amounts] = {}
    for owner in slices:
        for counter_set in owner.record.spec.shared_counters:
            if counter_set.name in found:
                return None
            found[counter_set.name] = {
                name: nano_value(counter.value) for name, counter in counter_set.counters.items()
            }
    return found


def _counters_known(counter_sets: Mapping[str, Amounts], slices: Iterable[Slice]) -> bool:
    return all(
        counter_set in counter_sets and amounts.keys() <= counter_sets[counter_set].keys()
        for owner in slices
        for device in owner.devices
        if device.device.consumes_counters
        for counter_set, amounts in device.counters
    )
