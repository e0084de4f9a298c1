"""How much of a device's capacity a request takes, and whether that much is left.

A device that allows multiple allocations is shared: every request takes a part of each capacity, which
the device's policy rounds up. Amounts are whole numbers of billionths.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from stowplan.objects.base import Quantity
from stowplan.objects.devices import CapacityRequestPolicy, DeviceCapacity
from stowplan.objects.quantity import nano_value, value

_NANO = 10**9
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


class Amount(NamedTuple):
    """A quantity, exactly and as it is written."""

    nano: int
    text: Quantity


class Policy(NamedTuple):
    """Which amounts can be had of a capacity."""

    default: Amount | None
    valid_values: tuple[Amount, ...]
    ranged: bool
    least: Amount | None
    most: Amount | None
    step: Quantity | None


class Capacity(NamedTuple):
    """A capacity of a device, ready for arithmetic."""

    value: Amount
    policy: Policy | None


def _amount(quantity: Quantity | None) -> Amount | None:
    return None if quantity is None else Amount(nano_value(quantity), quantity)


def _known_amount(quantity: Quantity) -> Amount:
    return Amount(nano_value(quantity), quantity)


def prepare_capacity(capacity: DeviceCapacity) -> Capacity:
    """The capacity, ready for arithmetic."""
    policy = capacity.request_policy
    return Capacity(_known_amount(capacity.value), None if policy is None else _prepare_policy(policy))


def _prepare_policy(policy: CapacityRequestPolicy) -> Policy:
    allowed = policy.valid_range
    return Policy(
        default=_amount(policy.default),
        valid_values=tuple(_known_amount(quantity) for quantity in policy.valid_values),
        ranged=allowed is not None,
        least=_amount(allowed.min) if allowed else None,
        most=_amount(allowed.max) if allowed else None,
        step=allowed.step if allowed else None,
    )


def prepare_requests(requests: Mapping[str, Quantity]) -> dict[str, Amount]:
    """Requested capacities, ready for arithmetic."""
    return {name: _known_amount(quantity) for name, quantity in requests.items()}


def consumed_capacity(
    requests: Mapping[str, Amount] | None, capacities: Mapping[str, Capacity]
) -> dict[str, Amount]:
    """How much a request takes of each capacity of a device."""
    return {name: _consumed((requests or {}).get(name), capacity) for name, capacity in capacities.items()}


def fits(
    requests: Mapping[str, Amount] | None,
    capacities: Mapping[str, Capacity],
    taken: Mapping[str, int],
    being_taken: Mapping[str, int],
) -> bool:
    """Whether what a request takes is allowed and still there."""
    if requests and not requests.keys() <= capacities.keys():
        return False
    for name, capacity in capacities.items():
        amount = _consumed((requests or {}).get(name), capacity)
        if capacity.policy is not None and _violates(amount, capacity.policy):
            return False
        if amount.nano + taken.get(name, 0) + being_taken.get(name, 0) > capacity.value.nano:
            return False
    return True


def _consumed(requested: Amount | None, capacity: Capacity) -> Amount:
    """Unasked, the default or all of it; else the next amount that the policy allows."""
    policy = capacity.policy
    if requested is None:
        return capacity.value if policy is None or policy.default is None else policy.default
    if policy is None:
        return requested
    if policy.least is not None:
        return _next_step(requested, policy.least, policy.step)
    return next((allowed for allowed in policy.valid_values if requested.nano <= allowed.nano), requested)


def _next_step(requested: Amount, least: Amount, step: Quantity | None) -> Amount:
    if requested.nano < least.nano:
        return least
    if step is None or value(step) == 0:
        return requested
    start = value(least.text)
    steps = -(-(value(requested.text) - start) // value(step))
    whole = start + steps * value(step)
    return Amount(whole * _NANO, _binary_text(whole))


def _violates(amount: Amount, policy: Policy) -> bool:
    if policy.default is not None and amount.nano == policy.default.nano:
        return False
    if policy.ranged:
        return _violates_range(amount, policy)
    return bool(policy.valid_values) and all(allowed.nano != amount.nano for allowed in policy.valid_values)


def _violates_range(amount: Amount, policy: Policy) -> bool:
    if policy.most is not None and amount.nano > policy.most.nano:
        return True
    if policy.step is None or value(policy.step) == 0:
        return False
    start = 0 if policy.least is None else value(policy.least.text)
    return (value(amount.text) - start) % value(policy.step) != 0


def _binary_text(number: int) -> str:
    """A whole number with the largest binary suffix that keeps it whole."""
    power = 0
    while number and power < len(_BINARY) - 1 and number % 1024 == 0:
        number //= 1024
        power += 1
    return f"{number}{_BINARY[power]}"
