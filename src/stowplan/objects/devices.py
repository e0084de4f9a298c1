"""Devices that pods claim: the objects of the API group resource.k8s.io.

The shape is that of version v1. The older v1beta1 puts the content of `exactly` beside the name of a
request and the content of a device under `basic`; both are moved to where v1 has them while decoding.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stowplan.objects.base import Int64, Quantity, Record
from stowplan.objects.meta import Condition, KubeObject, NodeSelector, Time

# ---------------------------------------------------------------- what a claim asks for


class CELSelector(Record, frozen=True):
    """A condition on one device, written in CEL."""

    expression: str = ""


class DeviceSelector(Record, frozen=True):
    """A condition on a device. One without `cel` comes from an API version that is not known here."""

    cel: CELSelector | None = None


class DeviceToleration(Record, frozen=True):
    """Says which taints of a device a request puts up with."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class CapacityRequirements(Record, frozen=True):
    """How much of each capacity of a shared device is asked for."""

    requests: dict[str, Quantity] = {}


class ExactDeviceRequest(Record, frozen=True):
    """Devices of one class, a number of them or all."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: Int64 = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceSubRequest(Record, frozen=True):
    """One alternative of a request; the first alternative that can be had is taken."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: Int64 = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(Record, frozen=True):
    """A named request: `exactly` something, or the `first_available` of some alternatives."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()

    # v1beta1 has these here instead of in `exactly`.
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: Int64 = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None

    def __post_init__(self) -> None:
        if self.exactly is None and self.device_class_name:
            exactly = ExactDeviceRequest(**{name: getattr(self, name) for name in _EXACT_FIELDS})
            msgspec.structs.force_setattr(self, "exactly", exactly)
            for name in _EXACT_FIELDS:
                msgspec.structs.force_setattr(self, name, getattr(_NO_REQUEST, name))


_EXACT_FIELDS = ExactDeviceRequest.__struct_fields__
_NO_REQUEST = ExactDeviceRequest()


class DeviceConstraint(Record, frozen=True):
    """What devices of the named requests (of all, if none is named) must have in common or not."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class OpaqueConfiguration(Record, frozen=True):
    """Parameters that only the driver understands."""

    driver: str = ""
    parameters: Any = None


class DeviceClaimConfiguration(Record, frozen=True):
    """Parameters for the named requests, or for all of them."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueConfiguration | None = None


class DeviceClaim(Record, frozen=True):
    """All that a claim asks for."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Record, frozen=True):
    """The spec of a claim."""

    devices: DeviceClaim = DeviceClaim()


# ---------------------------------------------------------------- what a claim got


class DeviceAllocation(Record, frozen=True):
    """One device that was given to a request (`DeviceRequestAllocationResult` in the API)."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, Quantity] | None = None


class DeviceAllocationConfiguration(Record, frozen=True):
    """Parameters that the driver gets with the devices, from the class or from the claim."""

    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueConfiguration | None = None


class DeviceAllocationResult(Record, frozen=True):
    """The devices of an allocation and the parameters for them."""

    results: tuple[DeviceAllocation, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(Record, frozen=True):
    """What a claim got, and from which nodes it can be used (None: from all)."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: Time | None = None


class ConsumerReference(Record, frozen=True):
    """Who may use an allocated claim (`ResourceClaimConsumerReference` in the API)."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(Record, frozen=True):
    """What the driver reports about a device of an allocated claim."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: tuple[Condition, ...] = ()


class ResourceClaimStatus(Record, frozen=True):
    """The status of a claim."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


# ---------------------------------------------------------------- what drivers offer


class DeviceAttribute(Record, frozen=True):
    """A property of a device; exactly one of the values is set."""

    int_value: Int64 | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    string_value: str | None = msgspec.field(default=None, name="string")
    version_value: str | None = msgspec.field(default=None, name="version")

    @property
    def value(self) -> tuple[str, int | bool | str] | None:
        """Type and value together, so that values of different types are never equal."""
        if self.string_value is not None:
            return "string", self.string_value
        if self.int_value is not None:
            return "int", self.int_value
        if self.bool_value is not None:
            return "bool", self.bool_value
        if self.version_value is not None:
            return "version", self.version_value
        return None


class CapacityRange(Record, frozen=True):
    """Amounts of a capacity that can be had: from min to max, in steps."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Record, frozen=True):
    """Which amounts of a shared device's capacity can be had, and how many are given unasked."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRange | None = None


class DeviceCapacity(Record, frozen=True):
    """An amount of something that a device has."""

    value: Quantity = 0
    request_policy: CapacityRequestPolicy | None = None


class Counter(Record, frozen=True):
    """An amount of something that devices of a pool share."""

    value: Quantity = 0


class CounterSet(Record, frozen=True):
    """Named amounts that devices of a pool share."""

    name: str = ""
    counters: dict[str, Counter] = {}


class DeviceCounterConsumption(Record, frozen=True):
    """What a device takes out of a counter set while it is in use."""

    counter_set: str = ""
    counters: dict[str, Counter] = {}


class DeviceTaint(Record, frozen=True):
    """Keeps requests that do not tolerate it away from a device."""

    key: str = ""
    value: str = ""
    effect: str = ""


class BasicDevice(Record, frozen=True):
    """The content of a device in v1beta1, where it stands under `basic`."""

    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False


class Device(BasicDevice, frozen=True):
    """A device that can be allocated."""

    name: str = ""
    basic: BasicDevice | None = None

    def __post_init__(self) -> None:
        if self.basic is not None:
            for name in BasicDevice.__struct_fields__:
                msgspec.structs.force_setattr(self, name, getattr(self.basic, name))
            msgspec.structs.force_setattr(self, "basic", None)


class ResourcePool(Record, frozen=True):
    """The pool that a slice belongs to, its generation and of how many slices it consists."""

    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 0


class ResourceSliceSpec(Record, frozen=True):
    """Some devices of a pool, and from which nodes they can be used."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    devices: tuple[Device, ...] = ()
    per_device_node_selection: bool = False
    shared_counters: tuple[CounterSet, ...] = ()


class DeviceClassConfiguration(Record, frozen=True):
    """Parameters for every device of a class."""

    opaque: OpaqueConfiguration | None = None


class DeviceClassSpec(Record, frozen=True):
    """Which devices belong to a class."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class ResourceClaimTemplateSpec(Record, frozen=True):
    """What the claims made from a template look like."""

    spec: ResourceClaimSpec = ResourceClaimSpec()


# ---------------------------------------------------------------- the objects


class ResourceClaim(KubeObject, frozen=True):
    """A wish for devices and, once granted, the devices."""

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplate(KubeObject, frozen=True):
    """From which a claim is made for every pod that names it."""

    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class ResourceSlice(KubeObject, frozen=True):
    """Devices that a driver offers."""

    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceClass(KubeObject, frozen=True):
    """A kind of device that claims can ask for by name."""

    spec: DeviceClassSpec = DeviceClassSpec()
