"""What is written into claims once devices are found for them."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import NAMESPACE_URL, uuid5

from stowplan.objects.devices import (
    AllocationResult,
    DeviceAllocation,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    ResourceClaim,
)
from stowplan.objects.meta import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from stowplan.plugins.dynamicresources.requests import (
    MOST_ALTERNATIVES,
    AllocationError,
    Chosen,
    RequestPlan,
    Solution,
)

_FROM_CLASS, _FROM_CLAIM = "FromClass", "FromClaim"


def selector_problem(solution: Solution) -> str:
    """Slices with more than one term cannot be turned into the node selector of an allocation."""
    for plan, chosen in zip(solution.plans, solution.devices, strict=True):
        for entry in chosen:
            if _bound_to_node(entry):
                break
            selector = _selector_of(entry)
            terms = len(selector.node_selector_terms) if selector else 0
            if terms > 1:
                problem = f"unsupported ResourceSlice.NodeSelector with {terms} terms"
                return f"create NodeSelector for claim {plan.claim.name}: {problem}"
    return ""


def build_results(solution: Solution, node_name: str) -> list[AllocationResult]:
    """The allocation of each claim."""
    if problem := selector_problem(solution):
        raise AllocationError(problem)
    return [
        AllocationResult(
            devices=DeviceAllocationResult(
                results=tuple(
                    _device(plan.claim, entry, number) for number, entry in enumerate(solution.devices[claim])
                ),
                config=tuple(_configuration(solution, claim)),
            ),
            node_selector=_node_selector(solution.devices[claim], node_name),
        )
        for claim, plan in enumerate(solution.plans)
    ]


def _device(claim: ResourceClaim, entry: Chosen, number: int) -> DeviceAllocation:
    driver, pool, name = entry.id
    device = entry.device.device
    return DeviceAllocation(
        request=entry.request.full_name,
        driver=driver,
        pool=pool,
        device=name,
        admin_access=True if entry.request.admin else None,
        tolerations=entry.request.asked.tolerations,
        binding_conditions=device.binding_conditions,
        binding_failure_conditions=device.binding_failure_conditions,
        share_id=None if entry.consumed is None else _share_id(claim, number),
        consumed_capacity={name: amount.text for name, amount in entry.consumed.items()}
        if entry.consumed
        else None,
    )


def _share_id(claim: ResourceClaim, number: int) -> str:
    """Tells the shares of a device apart. Derived from the claim, because nothing here is random."""
    return str(
        uuid5(NAMESPACE_URL, f"resourceclaim/{claim.key}/{claim.uid}/{claim.resource_version}/{number}")
    )


def _configuration(solution: Solution, claim: int) -> list[DeviceAllocationConfiguration]:
    """Parameters of the classes, each class once, then those of the claim that concern what was chosen."""
    devices = solution.plans[claim].claim.spec.devices
    chosen = [solution.alternative(claim, number) for number in range(len(devices.requests))]
    found = _of_classes(chosen)
    for config in devices.config:
        own = DeviceAllocationConfiguration(
            source=_FROM_CLAIM, requests=config.requests, opaque=config.opaque
        )
        if not config.requests:
            found.append(own)
            continue
        found += [
            own for one in chosen if one.base_name in config.requests or one.full_name in config.requests
        ]
    return found


def _of_classes(chosen: Sequence[RequestPlan]) -> list[DeviceAllocationConfiguration]:
    names: dict[str, list[str]] = {}
    for one in chosen:
        if one.device_class is not None:
            names.setdefault(one.device_class.name, []).append(one.full_name)
    classes = {one.device_class.name: one.device_class for one in reversed(chosen) if one.device_class}
    return [
        DeviceAllocationConfiguration(source=_FROM_CLASS, requests=tuple(requests), opaque=config.opaque)
        for name, requests in names.items()
        for config in classes[name].spec.config
    ]


def _bound_to_node(entry: Chosen) -> bool:
    """Whether the device can be used from one node only."""
    spec = entry.device.slice.record.spec
    device = entry.device.device
    return (
        bool(device.node_name if spec.per_device_node_selection else spec.node_name) or device.binds_to_node
    )


def _selector_of(entry: Chosen) -> NodeSelector | None:
    spec = entry.device.slice.record.spec
    return entry.device.device.node_selector if spec.per_device_node_selection else spec.node_selector


def _node_selector(chosen: Sequence[Chosen], node_name: str) -> NodeSelector | None:
    """The nodes from which all devices can be used; None for all nodes."""
    if any(_bound_to_node(entry) for entry in chosen):
        here = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node_name,))
        return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(here,)),))
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for entry in chosen:
        selector = _selector_of(entry)
        for term in selector.node_selector_terms if selector else ():
            _add_new(fields, term.match_fields)
            _add_new(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    together = NodeSelectorTerm(match_fields=tuple(fields), match_expressions=tuple(expressions))
    return NodeSelector(node_selector_terms=(together,))


def _add_new(known: list[NodeSelectorRequirement], more: Sequence[NodeSelectorRequirement]) -> None:
    for one in more:
        if not any(_same(one, other) for other in known):
            known.append(one)


def _same(one: NodeSelectorRequirement, other: NodeSelectorRequirement) -> bool:
    return (one.key, one.operator, set(one.values)) == (other.key, other.operator, set(other.values))


def allocation_score(claim: ResourceClaim, chosen_names: set[str]) -> int:
    """How good the chosen alternatives are, given the full names of the requests that have devices."""
    return sum(
        MOST_ALTERNATIVES - index
        for request in claim.spec.devices.requests
        if request.exactly is None
        for index, alternative in enumerate(request.first_available)
        if f"{request.name}/{alternative.name}" in chosen_names
    )
