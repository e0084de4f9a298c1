from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.objects.devices import DeviceCapacity
from stowplan.plugins.dynamicresources.capacity import (
    consumed_capacity,
    fits,
    prepare_capacity,
    prepare_requests,
)

GI = 1024**3
NANO = 10**9


def capacity(value: str, **policy: Any) -> dict[str, Any]:
    raw = {"value": value, **({"requestPolicy": policy} if policy else {})}
    return {"memory": prepare_capacity(msgspec.convert(raw, DeviceCapacity))}


def taken(device: dict[str, Any], asked: str | None) -> Any:
    requests = None if asked is None else prepare_requests({"memory": asked})
    return consumed_capacity(requests, device)["memory"].text


RANGE: dict[str, Any] = {"default": "2Gi", "validRange": {"min": "1Gi", "max": "8Gi", "step": "1Gi"}}
VALUES: dict[str, Any] = {"default": "1Gi", "validValues": ["1Gi", "2Gi", "4Gi"]}


@pytest.mark.parametrize(
    ("policy", "asked", "wanted"),
    [
        ({}, None, "8Gi"),
        ({}, "3Gi", "3Gi"),
        (RANGE, None, "2Gi"),
        (RANGE, "512Mi", "1Gi"),
        (RANGE, "1Gi", "1Gi"),
        (RANGE, "1025Mi", "2Gi"),
        (RANGE, "7500Mi", "8Gi"),
        ({"default": "2Gi", "validRange": {"min": "1Gi"}}, "1500Mi", "1500Mi"),
        ({"default": "2Gi", "validRange": {"max": "4Gi"}}, "1500Mi", "1500Mi"),
        (VALUES, None, "1Gi"),
        (VALUES, "1500Mi", "2Gi"),
        (VALUES, "4Gi", "4Gi"),
        (VALUES, "5Gi", "5Gi"),
    ],
)
def test_how_much_is_taken(policy: dict[str, Any], asked: str | None, wanted: str) -> None:
    assert taken(capacity("8Gi", **policy), asked) == wanted


@pytest.mark.parametrize(
    ("policy", "asked", "allowed"),
    [
        ({}, "8Gi", True),
        ({}, "8193Mi", False),
        (RANGE, "8Gi", True),
        (RANGE, "9Gi", False),
        ({"default": "2Gi", "validRange": {"max": "4Gi", "step": "1Gi"}}, "1500Mi", False),
        ({"default": "1500Mi", "validRange": {"max": "4Gi", "step": "1Gi"}}, "1500Mi", True),
        (VALUES, "5Gi", False),
        (VALUES, "3Gi", True),
    ],
)
def test_what_the_policy_allows(policy: dict[str, Any], asked: str, allowed: bool) -> None:
    assert fits(prepare_requests({"memory": asked}), capacity("8Gi", **policy), {}, {}) is allowed


def test_what_others_have_is_not_there() -> None:
    request = prepare_requests({"memory": "4Gi"})
    device = capacity("8Gi")
    assert fits(request, device, {"memory": 2 * GI * NANO}, {"memory": 2 * GI * NANO})
    assert not fits(request, device, {"memory": 3 * GI * NANO}, {"memory": 2 * GI * NANO})
    assert not fits(request, device, {"memory": 2 * GI * NANO}, {"memory": 3 * GI * NANO})


def test_a_capacity_that_the_device_lacks_cannot_be_had() -> None:
    assert not fits(prepare_requests({"cores": "1"}), capacity("8Gi"), {}, {})


@settings(max_examples=200)
@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 1000))
def test_rounding_finds_the_next_step(least: int, step: int, asked: int) -> None:
    device = capacity("1Ei", default="1", validRange={"min": str(least), "step": str(step)})
    amount = consumed_capacity(prepare_requests({"memory": str(asked)}), device)["memory"].nano // NANO
    assert amount >= max(asked, least)
    assert (amount - least) % step == 0
    assert amount - step < max(asked, least)
