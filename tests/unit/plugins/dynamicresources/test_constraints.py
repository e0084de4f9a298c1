from __future__ import annotations

import msgspec
import pytest

from stowplan.objects.devices import Device, DeviceConstraint
from stowplan.plugins.dynamicresources.constraints import (
    Constraint,
    DistinctAttribute,
    MatchAttribute,
    attribute_of,
    make_constraint,
)
from tests.unit.plugins.dynamicresources.world import device

DRIVER = "d.com"


def make(name: str = "a", /, **attributes: int | str) -> Device:
    return msgspec.convert(device(name, attributes), Device)


def add(constraint: Constraint, made: Device, request: str = "r", alternative: str = "") -> bool:
    return constraint.add(request, alternative, made, DRIVER)


@pytest.mark.parametrize(
    ("own", "asked", "found"),
    [
        ("x", "d.com/x", True),
        ("d.com/x", "d.com/x", True),
        ("other.com/x", "other.com/x", True),
        ("x", "other.com/x", False),
        ("other.com/x", "d.com/x", False),
        ("x", "x", True),
        ("x", "y", False),
    ],
)
def test_the_drivers_own_domain_may_be_left_out(own: str, asked: str, found: bool) -> None:
    made = msgspec.convert(device("a", {own: 1}), Device)
    assert (attribute_of(made, DRIVER, asked) is not None) is found


def test_devices_that_are_taken_back_no_longer_count() -> None:
    same = MatchAttribute((), "d.com/x")
    assert add(same, make(x=1))
    assert not add(same, make(x=2))
    same.remove("r", "")
    assert add(same, make(x=2))


def test_without_the_attribute_nothing_matches_and_nothing_differs() -> None:
    assert not add(MatchAttribute((), "d.com/x"), make())
    assert not add(DistinctAttribute((), "d.com/x"), make())


def test_requests_that_are_not_concerned_may_have_anything() -> None:
    same = MatchAttribute(("r", "s/one"), "d.com/x")
    assert add(same, make(x=1))
    assert add(same, make(x=2), "t")
    assert add(same, make(x=2), "s", "two")
    assert not add(same, make(x=2), "s", "one")
    assert not add(same, make(x=2), "r", "any")
    same.remove("t", "")
    assert not add(same, make(x=2))


def test_of_each_request_only_the_latest_value_is_remembered() -> None:
    different = DistinctAttribute((), "d.com/x")
    assert add(different, make(x=1))
    assert add(different, make(x=2))
    assert not add(different, make(x=2))
    assert add(different, make(x=1))
    assert not add(different, make(x=1), "s")


def test_which_constraint_is_meant() -> None:
    assert isinstance(make_constraint(DeviceConstraint(match_attribute="d.com/x")), MatchAttribute)
    assert isinstance(make_constraint(DeviceConstraint(distinct_attribute="d.com/x")), DistinctAttribute)
    assert make_constraint(DeviceConstraint()) is None
