"""Which devices are taken, and how much of those that are shared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from stowplan.cluster.columns import ChangeLog
from stowplan.objects.devices import AllocationResult
from stowplan.objects.quantity import nano_value

DeviceID: TypeAlias = tuple[str, str, str]
"""Driver, pool and name."""
PoolID: TypeAlias = tuple[str, str]
Amounts: TypeAlias = dict[str, int]
"""Capacities or counters by name, in billionths."""


class ConsumedCapacity(dict[DeviceID, Amounts]):
    """How much is taken of devices that are shared. An entry without amounts still says "is shared"."""

    def insert(self, device: DeviceID, amounts: Mapping[str, int]) -> None:
        known = self.get(device)
        if known is None:
            self[device] = dict(amounts)
            return
        for name, amount in amounts.items():
            known[name] = known.get(name, 0) + amount

    def take_out(self, device: DeviceID, amounts: Mapping[str, int]) -> None:
        known = self.get(device)
        if known is None:
            return
        for name, amount in amounts.items():
            if name in known:
                known[name] -= amount
        if not any(known.values()):
            del self[device]


class AllocatedState:
    """The devices of all allocated claims, kept up to date as allocations come and go.

    Readers that remember answers follow `log`: numbers of pools whose devices came or went, in order.
    """

    def __init__(self) -> None:
        self.devices: Counter[DeviceID] = Counter()
        """Devices that one claim has for itself. Counted, because while a claim is being written the same
        allocation may be known twice."""
        self.shares: Counter[DeviceID] = Counter()
        """Devices that several claims have, and how many shares of them are given."""
        self.capacity = ConsumedCapacity()
        self.log = ChangeLog[int]()
        self._numbers: dict[PoolID, int] = {}
        self._pools: list[PoolID] = []

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self.log.position

    def pool_of(self, number: int) -> PoolID:
        """The pool that a number in the log stands for."""
        return self._pools[number]

    def _touch(self, pool: PoolID) -> None:
        number = self._numbers.setdefault(pool, len(self._pools))
        if number == len(self._pools):
            self._pools.append(pool)
        self.log.append(number)

    def is_allocated(self, device: DeviceID) -> bool:
        """Whether any claim has the device or a share of it."""
        return device in self.devices or device in self.shares or device in self.capacity

    def add(self, allocation: AllocationResult | None) -> None:
        """Counts an allocation."""
        for device, share, amounts in _used(allocation):
            if share is None:
                self.devices[device] += 1
            else:
                self.shares[device] += 1
                if amounts is not None:
                    self.capacity.insert(device, amounts)
            self._touch(device[:2])

    def remove(self, allocation: AllocationResult | None) -> None:
        """Takes an allocation back."""
        for device, share, amounts in _used(allocation):
            if share is None:
                _count_down(self.devices, device)
            else:
                _count_down(self.shares, device)
                if amounts is not None:
                    self.capacity.take_out(device, amounts)
            self._touch(device[:2])


def _count_down(counter: Counter[DeviceID], device: DeviceID) -> None:
    counter[device] -= 1
    if counter[device] <= 0:
        del counter[device]


def _used(allocation: AllocationResult | None) -> Iterable[tuple[DeviceID, str | None, Amounts | None]]:
    """What an allocation takes: access for administrators takes nothing."""
    if allocation is None:
        return
    for result in allocation.devices.results:
        if result.admin_access:
            continue
        amounts = None
        if result.consumed_capacity is not None:
            amounts = {name: nano_value(amount) for name, amount in result.consumed_capacity.items()}
        yield (result.driver, result.pool, result.device), result.share_id, amounts
