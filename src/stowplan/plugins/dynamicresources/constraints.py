"""What the devices of a claim must have in common, or must not.

Constraints are told of every device that is tried and of every one that is taken back. Once a
constraint refuses, more devices cannot make it content again.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

from stowplan.objects.devices import Device, DeviceAttribute, DeviceConstraint

Value: TypeAlias = tuple[str, int | bool | str] | None


class Constraint(Protocol):
    """A constraint with the devices that it has seen so far."""

    def add(self, request: str, subrequest: str, device: Device, driver: str) -> bool: ...
    def remove(self, request: str, subrequest: str) -> None: ...


def attribute_of(device: Device, driver: str, name: str) -> DeviceAttribute | None:
    """A device's attribute by its full name; those in the driver's domain may be written without it."""
    found = device.attributes.get(name)
    if found is not None:
        return found
    domain, slash, rest = name.partition("/")
    return device.attributes.get(rest) if slash and domain == driver else None


class _OnRequests:
    """A constraint may be for some requests only; one for a request holds for its alternatives too."""

    def __init__(self, requests: tuple[str, ...], attribute: str) -> None:
        self._requests = frozenset(requests)
        self._attribute = attribute
        self._devices = 0

    def _concerns(self, request: str, subrequest: str) -> bool:
        if not self._requests or request in self._requests:
            return True
        return bool(subrequest) and f"{request}/{subrequest}" in self._requests


class MatchAttribute(_OnRequests):
    """All devices have the same value of an attribute."""

    _value: Value = None

    def add(self, request: str, subrequest: str, device: Device, driver: str) -> bool:
        if not self._concerns(request, subrequest):
            return True
        attribute = attribute_of(device, driver, self._attribute)
        if attribute is None:
            return False
        if self._devices == 0:
            self._value = attribute.value
        elif attribute.value is None or attribute.value != self._value:
            return False
        self._devices += 1
        return True

    def remove(self, request: str, subrequest: str) -> None:
        if self._concerns(request, subrequest):
            self._devices -= 1


class DistinctAttribute(_OnRequests):
    """All devices have different values of an attribute.

    As upstream, it remembers one value per request: a third device of one request is compared with the
    second, not with the first.
    """

    def __init__(self, requests: tuple[str, ...], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._values: dict[str, Value] = {}

    def add(self, request: str, subrequest: str, device: Device, driver: str) -> bool:
        if not self._concerns(request, subrequest):
            return True
        attribute = attribute_of(device, driver, self._attribute)
        if attribute is None:
            return False
        if (
            self._devices
            and self._values
            and (attribute.value is None or attribute.value in self._values.values())
        ):
            return False
        self._values[request] = attribute.value
        self._devices += 1
        return True

    def remove(self, request: str, subrequest: str) -> None:
        if self._concerns(request, subrequest):
            self._values.pop(request, None)
            self._devices -= 1


def make_constraint(constraint: DeviceConstraint) -> Constraint | None:
    """A constraint that has seen no device yet; None for a kind that is not known here."""
    if constraint.match_attribute is not None:
        return MatchAttribute(constraint.requests, constraint.match_attribute)
    if constraint.distinct_attribute is not None:
        return DistinctAttribute(constraint.requests, constraint.distinct_attribute)
    return None
