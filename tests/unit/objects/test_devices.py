from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stowplan.objects import ObjectError, decode_object
from stowplan.objects.devices import (
    Device,
    DeviceAllocation,
    DeviceClass,
    DeviceRequest,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)


def decode(kind: str, spec: dict[str, Any], version: str = "v1", **more: Any) -> Any:
    return decode_object(
        {
            "apiVersion": f"resource.k8s.io/{version}",
            "kind": kind,
            "metadata": {"name": "x", "namespace": "ns"},
            "spec": spec,
            **more,
        }
    )


@pytest.mark.parametrize("version", ["v1", "v1beta2"])
def test_a_claim_as_it_is_now(version: str) -> None:
    request = {
        "name": "r",
        "exactly": {
            "deviceClassName": "gpu",
            "allocationMode": "ExactCount",
            "count": 2,
            "adminAccess": True,
            "selectors": [{"cel": {"expression": "true"}}],
            "tolerations": [{"key": "t", "operator": "Exists"}],
            "capacity": {"requests": {"memory": "1Gi"}},
        },
    }
    claim = decode("ResourceClaim", {"devices": {"requests": [request]}}, version)
    assert isinstance(claim, ResourceClaim)
    exactly = claim.spec.devices.requests[0].exactly
    assert exactly is not None
    assert (exactly.device_class_name, exactly.count, exactly.admin_access) == ("gpu", 2, True)
    assert exactly.selectors[0].cel is not None
    assert exactly.selectors[0].cel.expression == "true"
    assert exactly.capacity is not None
    assert exactly.capacity.requests == {"memory": "1Gi"}


def test_a_request_of_v1beta1_is_moved_to_where_v1_has_it() -> None:
    old = {"name": "r", "deviceClassName": "gpu", "allocationMode": "All", "selectors": [{}]}
    new = {"name": "r", "exactly": {key: value for key, value in old.items() if key != "name"}}
    assert msgspec.convert(old, DeviceRequest) == msgspec.convert(new, DeviceRequest)


def test_alternatives_of_v1beta1_stay_alternatives() -> None:
    request = msgspec.convert({"name": "r", "firstAvailable": [{"name": "a"}]}, DeviceRequest)
    assert request.exactly is None
    assert request.first_available[0].name == "a"


def test_a_device_of_v1beta1_is_moved_to_where_v1_has_it() -> None:
    content = {
        "attributes": {"model": {"string": "a100"}},
        "capacity": {"memory": {"value": "40Gi"}},
        "nodeName": "n1",
        "allowMultipleAllocations": True,
        "taints": [{"key": "t", "effect": "NoSchedule"}],
    }
    old = msgspec.convert({"name": "d", "basic": content}, Device)
    assert old == msgspec.convert({"name": "d", **content}, Device)
    assert old.attributes["model"].value == ("string", "a100")


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ({"int": 0}, ("int", 0)),
        ({"bool": False}, ("bool", False)),
        ({"string": ""}, ("string", "")),
        ({"version": "1.0.0"}, ("version", "1.0.0")),
        ({"ints": [1]}, None),
        ({}, None),
    ],
)
def test_an_attribute_has_one_value_with_its_type(raw: dict[str, Any], value: Any) -> None:
    slice_ = decode("ResourceSlice", {"driver": "d", "devices": [{"name": "a", "attributes": {"x": raw}}]})
    assert isinstance(slice_, ResourceSlice)
    found = slice_.spec.devices[0].attributes["x"].value
    assert found == value
    assert found is None or type(found[1]) is type(value[1])


def test_status_says_what_was_allocated_to_whom() -> None:
    result = {"request": "r", "driver": "d", "pool": "p", "device": "a", "shareID": "s"}
    status = {
        "allocation": {
            "devices": {"results": [{**result, "consumedCapacity": {"memory": "1Gi"}}]},
            "allocationTimestamp": "2024-05-01T10:00:00Z",
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
        "devices": [
            {"driver": "d", "pool": "p", "device": "a", "conditions": [{"type": "ready", "status": "True"}]}
        ],
    }
    claim = decode("ResourceClaim", {}, status=status)
    allocation = claim.status.allocation
    assert allocation.devices.results[0].share_id == "s"
    assert allocation.devices.results[0].consumed_capacity == {"memory": "1Gi"}
    assert allocation.allocation_timestamp == 1714557600
    assert claim.status.reserved_for[0].uid == "u"
    assert claim.status.devices[0].conditions[0].type == "ready"


def test_a_share_is_written_under_the_name_that_the_api_has() -> None:
    assert msgspec.to_builtins(DeviceAllocation(device="a", share_id="s")) == {"device": "a", "shareID": "s"}


def test_templates_and_classes() -> None:
    template = decode("ResourceClaimTemplate", {"spec": {"devices": {"requests": [{"name": "r"}]}}})
    assert isinstance(template, ResourceClaimTemplate)
    assert template.spec.spec.devices.requests[0].name == "r"
    config = [{"opaque": {"driver": "d", "parameters": {"any": ["thing", 1]}}}]
    made = decode("DeviceClass", {"extendedResourceName": "example.com/gpu", "config": config})
    assert isinstance(made, DeviceClass)
    assert made.spec.extended_resource_name == "example.com/gpu"
    assert made.spec.config[0].opaque is not None
    assert made.spec.config[0].opaque.parameters == {"any": ["thing", 1]}


@pytest.mark.parametrize(
    ("device", "path"),
    [
        ({"name": "a", "capacity": {"memory": {"value": "lots"}}}, r"devices\[0\].capacity.*memory.*value"),
        (
            {"name": "a", "consumesCounters": [{"counterSet": "c", "counters": {"x": {"value": "1x"}}}]},
            r"devices\[0\].consumesCounters\[0\].counters.x.value",
        ),
        ({"name": 1}, r"devices\[0\].name"),
    ],
)
def test_a_mistake_is_reported_with_object_and_field(device: dict[str, Any], path: str) -> None:
    with pytest.raises(ObjectError, match=f"ResourceSlice ns/x: spec.{path}"):
        decode("ResourceSlice", {"driver": "d", "devices": [device]})


def test_null_stands_for_absent() -> None:
    made = decode("ResourceSlice", {"driver": "d", "devices": None, "nodeName": None, "allNodes": True})
    assert made.spec.devices == ()
    assert made.spec.all_nodes
