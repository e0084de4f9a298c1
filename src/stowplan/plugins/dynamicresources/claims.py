"""The claims that a pod names: which they are, and whether the pod may use them."""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.objects import Pod, ResourceClaim
from stowplan.objects.devices import AllocatedDeviceStatus, DeviceAllocation
from stowplan.plugins.dynamicresources.ledger import Ledger


class ClaimProblem(Exception):  # noqa: N818 - it is the pod's problem, not an error of ours
    """Why a pod cannot be scheduled for now."""


class ConditionFailedError(Exception):
    """A device that was allocated says that it cannot be made ready."""


def pod_claims(pod: Pod, ledger: Ledger) -> list[ResourceClaim]:
    """All claims of a pod, in the order of its spec; ClaimProblem when one cannot be used."""
    return [claim for claim in _pod_claims(pod, ledger) if claim is not None]


def _pod_claims(pod: Pod, ledger: Ledger) -> Iterator[ResourceClaim | None]:
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        name, generated = entry.resource_claim_name, False
        if name is None:
            if entry.resource_claim_template_name is None:
                where = f'pod "{pod.key}", spec.resourceClaim "{entry.name}"'
                raise ClaimProblem(f"{where}: none of the supported fields are set")
            if entry.name not in made:
                raise ClaimProblem(f'pod "{pod.key}": ResourceClaim not created yet')
            # A template may yield no claim, then there is nothing to wait for.
            name, generated = made[entry.name], True
        if name is not None:
            yield _usable(pod, ledger, f"{pod.namespace}/{name}", generated)


def _usable(pod: Pod, ledger: Ledger, key: str, generated: bool) -> ResourceClaim:
    claim = ledger.claim(key)
    if claim is None:
        raise ClaimProblem(f'could not find ResourceClaim "{key}"')
    if claim.terminating:
        raise ClaimProblem(f'resourceclaim "{claim.name}" is being deleted')
    if generated and (claim.controller is None or claim.controller.uid != pod.uid):
        raise ClaimProblem(f"ResourceClaim {key} was not created for Pod {pod.key} (Pod is not owner)")
    return claim


def reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether the claim says that the pod may use it."""
    return any(consumer.uid == pod.uid for consumer in claim.status.reserved_for)


def device_status(claim: ResourceClaim, result: DeviceAllocation) -> AllocatedDeviceStatus | None:
    """What the driver reports about an allocated device."""
    for status in claim.status.devices:
        if (status.driver, status.pool, status.device) == (result.driver, result.pool, result.device):
            return status
    return None


def awaits_conditions(claim: ResourceClaim) -> bool:
    """Whether some device has to become ready before the pod can be bound."""
    allocation = claim.status.allocation
    return allocation is not None and any(result.binding_conditions for result in allocation.devices.results)


def is_ready(claim: ResourceClaim) -> bool:
    """Whether all devices are ready; ConditionFailedError when one never will be."""
    allocation = claim.status.allocation
    if allocation is None:
        return False
    for result in allocation.devices.results:
        if not result.binding_conditions:
            continue
        status = device_status(claim, result)
        if status is None:
            return False
        conditions = {condition.type: condition for condition in status.conditions}
        for name in result.binding_failure_conditions:
            failed = conditions.get(name)
            if failed is not None and failed.status == "True":
                raise ConditionFailedError(
                    f"device binding failed: claim={claim.name}, reason={failed.reason}, "
                    f'message="{failed.message}"'
                )
        if any(
            name not in conditions or conditions[name].status != "True" for name in result.binding_conditions
        ):
            return False
    return True


def took_too_long(claim: ResourceClaim, now: float, patience: float) -> bool:
    """Whether a device should have been ready by now."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None or not awaits_conditions(claim):
        return False
    return allocation.allocation_timestamp + patience < now
