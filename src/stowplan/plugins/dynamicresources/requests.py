"""What the claims of a pod ask for, made ready once for all nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from stowplan.objects.devices import (
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)
from stowplan.plugins.dynamicresources.capacity import Amount, prepare_requests
from stowplan.plugins.dynamicresources.cel import CELCompileError, CELRuntimeError, compile_selector
from stowplan.plugins.dynamicresources.constraints import Constraint, make_constraint
from stowplan.plugins.dynamicresources.pools import PoolDevice
from stowplan.plugins.dynamicresources.state import DeviceID

MAX_RESULTS = 32
"""How many devices a claim can have."""
MOST_ALTERNATIVES = 8
"""How many alternatives a request can have: the first is worth this much, the next one less."""
EXACT_COUNT = "ExactCount"
ALL = "All"
_PREVENTING = ("NoSchedule", "NoExecute")

ClassLookup: TypeAlias = Callable[[str], DeviceClass | None]


class AllocationError(ValueError):
    """Something is wrong with a claim or a class: no node will do until that is mended."""


class NodeAllocationError(Exception):
    """Something keeps this node from being used; others may do."""


@dataclass(eq=False)
class RequestPlan:
    """A request, or one alternative of a request."""

    claim: str
    """The claim's namespace/name, for messages."""
    name: str
    asked: ExactDeviceRequest | DeviceSubRequest
    device_class: DeviceClass | None
    parent: str = ""
    """The name of the request that this is an alternative of."""
    number: int = 0
    """Which request of the claim."""
    index: int = 0
    """Which alternative of the request."""

    @property
    def full_name(self) -> str:
        """The name as it stands in results."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def base_name(self) -> str:
        return self.parent or self.name

    @property
    def subrequest(self) -> str:
        return self.name if self.parent else ""

    @cached_property
    def wants_all(self) -> bool:
        return self.asked.allocation_mode == ALL

    @cached_property
    def admin(self) -> bool:
        """Whether this is for watching a device, whoever else uses it."""
        return isinstance(self.asked, ExactDeviceRequest) and bool(self.asked.admin_access)

    @cached_property
    def capacities(self) -> dict[str, Amount] | None:
        wanted = self.asked.capacity
        return None if wanted is None else prepare_requests(wanted.requests)

    def problem(self) -> str:
        """What is wrong with the request whatever the node, or nothing."""
        where = f"claim {self.claim}, request {self.name}"
        for number, selector in enumerate(self.asked.selectors):
            if selector.cel is None:
                return f"{where}, selector #{number}: CEL expression empty (unsupported selector type?)"
        class_name = self.asked.device_class_name
        if not class_name:
            return f"{where}: missing device class name (unsupported request type?)"
        if self.device_class is None:
            missing = f'deviceclass.resource.k8s.io "{class_name}" not found'
            return f"{where}: could not retrieve device class {class_name}: {missing}"
        if self.asked.allocation_mode not in (EXACT_COUNT, ALL):
            return f"{where}: unsupported count mode {self.asked.allocation_mode}"
        return ""

    # Which devices it selects

    @cached_property
    def _selectors(self) -> tuple[tuple[str, int, DeviceSelector], ...]:
        """Whose selector, the how-manieth of his, and the selector: class first."""
        groups: list[tuple[str, Sequence[DeviceSelector]]] = []
        if self.device_class is not None:
            groups.append((f"class {self.device_class.name}", self.device_class.spec.selectors))
        groups.append((f"claim {self.claim}", self.asked.selectors))
        return tuple((owner, i, one) for owner, selectors in groups for i, one in enumerate(selectors))

    @cached_property
    def match_key(self) -> tuple[str, ...]:
        """Equal for requests that select the same devices."""
        return tuple(one.cel.expression if one.cel else "" for _, _, one in self._selectors)

    def selects(self, device: PoolDevice) -> bool:
        """Whether class and request select the device; AllocationError when a selector fails on it."""
        answer = device.matches.get(self.match_key)
        if answer is None:
            answer = device.matches[self.match_key] = self._judge(device)
        if isinstance(answer, tuple):
            place, problem = answer
            owner, number, _ = self._selectors[place]
            raise AllocationError(f"{owner}: selector #{number}: {problem}")
        return answer

    def _judge(self, device: PoolDevice) -> bool | tuple[int, str]:
        for place, (_, _, selector) in enumerate(self._selectors):
            try:
                if not compile_selector(selector.cel.expression if selector.cel else "").matches(device.seen):
                    return False
            except CELCompileError as problem:
                return place, f"CEL compile error: {problem}"
            except CELRuntimeError as problem:
                return place, f"CEL runtime error: {problem}"
        return True

    def tolerates(self, taints: Sequence[DeviceTaint]) -> bool:
        """Whether no taint of a device keeps the request away from it."""
        return all(
            taint.effect not in _PREVENTING
            or any(_tolerates(toleration, taint) for toleration in self.asked.tolerations)
            for taint in taints
        )


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


@dataclass(eq=False)
class ClaimPlan:
    """A claim: for every request its alternatives, of which a plain request has one."""

    claim: ResourceClaim
    key: str
    requests: tuple[tuple[RequestPlan, ...], ...]

    @property
    def constraints(self) -> Sequence[DeviceConstraint]:
        return self.claim.spec.devices.constraints

    def fresh_constraints(self) -> list[Constraint]:
        """The claim's constraints, none of which has seen a device."""
        made = [make_constraint(constraint) for constraint in self.constraints]
        return [constraint for constraint in made if constraint is not None]

    def constraint_problem(self) -> str:
        for number, constraint in enumerate(self.constraints):
            if make_constraint(constraint) is None:
                where = f"claim {self.key}, constraint #{number}"
                return f"{where}: empty constraint (unsupported constraint type?)"
        return ""


def plan_claim(claim: ResourceClaim, classes: ClassLookup) -> ClaimPlan:
    """A claim made ready."""
    requests = enumerate(claim.spec.devices.requests)
    return ClaimPlan(claim, claim.key, tuple(_plan(claim.key, i, one, classes) for i, one in requests))


def _plan(claim: str, number: int, request: DeviceRequest, classes: ClassLookup) -> tuple[RequestPlan, ...]:
    if request.first_available:
        return tuple(
            RequestPlan(claim, one.name, one, classes(one.device_class_name), request.name, number, index)
            for index, one in enumerate(request.first_available)
        )
    exactly = request.exactly or ExactDeviceRequest()
    return (RequestPlan(claim, request.name, exactly, classes(exactly.device_class_name), number=number),)


@dataclass(eq=False, slots=True)
class Chosen:
    """A device for a request."""

    request: RequestPlan
    device: PoolDevice
    consumed: dict[str, Amount] | None = None
    """What is taken of a shared device; None for one that is not shared."""

    @property
    def id(self) -> DeviceID:
        return self.device.id


@dataclass(eq=False, slots=True)
class Solution:
    """Devices for all claims, in the order of the claims."""

    plans: Sequence[ClaimPlan]
    devices: list[list[Chosen]]

    def alternative(self, claim: int, request: int) -> RequestPlan:
        """The alternative of a request that was chosen. Where none has a device, it is the first."""
        alternatives = self.plans[claim].requests[request]
        if len(alternatives) == 1:
            return alternatives[0]
        chosen = {entry.request for entry in self.devices[claim]}
        return next((one for one in alternatives if one in chosen), alternatives[0])

    @property
    def score(self) -> int:
        """How good the chosen alternatives are."""
        chosen = {entry.request for entries in self.devices for entry in entries if entry.request.parent}
        return sum(MOST_ALTERNATIVES - request.index for request in chosen)

    def moved_to(self, plans: Sequence[ClaimPlan]) -> Solution:
        """The same devices for claims that ask for the same."""
        return Solution(
            plans,
            [
                [
                    Chosen(
                        plan.requests[entry.request.number][entry.request.index], entry.device, entry.consumed
                    )
                    for entry in chosen
                ]
                for plan, chosen in zip(plans, self.devices, strict=True)
            ],
        )
