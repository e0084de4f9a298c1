"""Writes what was decided into claims, before the pod is bound.

Patches are strategic merge patches with the version that they are meant for: a claim that changed in
the meantime is looked at again, because another scheduler may have given it devices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from stowplan.framework.contract import Handle
from stowplan.objects import Pod, ResourceClaim
from stowplan.objects.decode import decode_object
from stowplan.objects.devices import AllocationResult, ConsumerReference
from stowplan.objects.meta import Time
from stowplan.objects.pod import ExtendedResourceRequestMapping
from stowplan.plugins.dynamicresources import extended
from stowplan.plugins.dynamicresources.claims import is_ready, reserved_for, took_too_long
from stowplan.plugins.dynamicresources.ledger import Ledger

FINALIZER = "resource.kubernetes.io/delete-protection"
_DELAYS = (0.01, 0.02, 0.04, 0.08, 0.16)
_POLL = 5.0
_LONGEST_PAUSE = 2.0
_CONFLICT = 409
_NO_SUCH_CLAIM = frozenset({404, _CONFLICT, 422})
"""There is none of this name, or it is another one."""
_PASSING = frozenset({0, 408, 429, 500, 502, 503, 504})


class BindingError(Exception):
    """A claim could not be written or did not become ready: the pod is scheduled anew."""


class ClaimWriter:
    """Writes claims through the client of a host."""

    def __init__(self, handle: Handle, ledger: Ledger) -> None:
        self._handle = handle
        self._ledger = ledger

    async def create_special(self, claim: ResourceClaim, pod: Pod) -> ResourceClaim:
        """Makes the claim for a pod's extended resources a real one."""
        created = await self._handle.client.create(extended.manifest(claim, pod))
        return _claim(created)

    async def reserve(
        self, claim: ResourceClaim, allocation: AllocationResult | None, pod: Pod
    ) -> ResourceClaim:
        """Writes the allocation (None: there is one already) and that the pod uses it."""
        for delay in (*_DELAYS, None):
            self._check(claim, allocation)
            try:
                return await self._write(claim, allocation, pod)
            except Exception as problem:
                current = await self._after(problem, claim, delay)
                if current is None or current.uid != claim.uid:
                    raise BindingError(f"claim {claim.key} got deleted in the meantime") from None
                claim = current
                if reserved_for(claim, pod) and claim.status.allocation is not None:
                    return claim
                if delay is None:
                    raise
        raise AssertionError("the last attempt raises or returns")

    async def _after(
        self, problem: Exception, claim: ResourceClaim, delay: float | None
    ) -> ResourceClaim | None:
        """The claim as it is after a write that failed; raises what went wrong when there is no use in
        another attempt."""
        in_doubt = _leaves_doubt(problem)
        if not in_doubt and (delay is None or not _is_conflict(problem)):
            raise problem
        if delay is not None:
            await self._handle.sleep(delay)
        return await self._look(claim) if in_doubt else self._ledger.claim(claim.key)

    async def _look(self, claim: ResourceClaim) -> ResourceClaim | None:
        """The claim as the API server has it, None when it is gone: a patch that changes nothing is answered
        with it. Until it can be asked this does not return: devices that may be written into a claim by now
        must be given to nobody else, and no other claim's version would tell the API server so."""
        pause = _DELAYS[0]
        while True:
            try:
                return _claim(await self._handle.client.patch(claim, {"metadata": {"uid": claim.uid}}))
            except Exception as problem:
                status = _status_of(problem)
                if status in _NO_SUCH_CLAIM:
                    return None
                if status is None or status not in _PASSING:
                    raise
            await self._handle.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _check(self, claim: ResourceClaim, allocation: AllocationResult | None) -> None:
        if claim.terminating:
            raise BindingError(f"claim {claim.key} got deleted in the meantime")
        if allocation is not None and claim.status.allocation is not None:
            raise BindingError(f"claim {claim.key} got allocated elsewhere in the meantime")
        if allocation is None and claim.status.allocation is None:
            raise BindingError(f"claim {claim.key} got deallocated elsewhere in the meantime")

    async def _write(
        self, claim: ResourceClaim, allocation: AllocationResult | None, pod: Pod
    ) -> ResourceClaim:
        client = self._handle.client
        if allocation is not None:
            hold: dict[str, Any] = {**_precondition(claim), "finalizers": [FINALIZER]}
            claim = _claim(await client.patch(claim, {"metadata": hold}))
        status: dict[str, Any] = {}
        granted = allocation or claim.status.allocation
        if granted is not None and granted.allocation_timestamp is None:
            status["allocation"] = _allocation_json(granted, self._handle.now())
        consumer = ConsumerReference(resource="pods", name=pod.name, uid=pod.uid)
        status["reservedFor"] = [msgspec.to_builtins(one) for one in (*claim.status.reserved_for, consumer)]
        patch = {"metadata": _precondition(claim), "status": status}
        return _claim(await client.patch(claim, patch, subresource="status"))

    async def note_special(
        self, pod: Pod, claim: ResourceClaim, mappings: Sequence[ExtendedResourceRequestMapping]
    ) -> None:
        """Tells the node, in the pod's status, which request serves which container."""
        if not mappings:
            raise BindingError(
                f"nil or empty request mappings, no update of pod {pod.key} ExtendedResourceClaimStatus"
            )
        made = {
            "resourceClaimName": claim.name,
            "requestMappings": [msgspec.to_builtins(one) for one in mappings],
        }
        patch = {"status": {"extendedResourceClaimStatus": made}}
        await self._handle.client.patch(pod, patch, subresource="status")

    async def unreserve(self, claim: ResourceClaim, pod: Pod) -> None:
        """Takes the pod off the list of those who use the claim."""
        gone = {"$patch": "delete", "uid": pod.uid}
        patch = {"metadata": {"uid": claim.uid}, "status": {"reservedFor": [gone]}}
        await self._handle.client.patch(claim, patch, subresource="status")

    async def deallocate(self, claim: ResourceClaim) -> None:
        """Gives the devices of a claim back."""
        consumers = [{"$patch": "delete", "uid": one.uid} for one in claim.status.reserved_for]
        status = {"allocation": None, "devices": None, "reservedFor": consumers}
        patch = {"metadata": _precondition(claim), "status": status}
        await self._handle.client.patch(claim, patch, subresource="status")

    async def delete(self, claim: ResourceClaim) -> None:
        """Deletes a claim that the scheduler made, after letting go of it."""
        release = {"metadata": {"uid": claim.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
        await self._handle.client.patch(claim, release)
        await self._handle.client.delete(claim)

    async def wait_until_ready(self, keys: Sequence[str], patience: float) -> None:
        """Waits until all devices of the claims are ready."""
        deadline = self._handle.now() + patience
        while not self._all_ready(keys, patience):
            if self._handle.now() >= deadline:
                raise BindingError("device binding timeout: context deadline exceeded")
            await self._handle.sleep(_POLL)

    def _all_ready(self, keys: Sequence[str], patience: float) -> bool:
        for key in keys:
            claim = self._ledger.claim(key)
            if claim is None:
                raise BindingError(f'could not find ResourceClaim "{key}"')
            if not is_ready(claim):
                if took_too_long(claim, self._handle.now(), patience):
                    raise BindingError(f"device binding timeout: claim={claim.name}")
                return False
        return True


def _precondition(claim: ResourceClaim) -> dict[str, str]:
    """What makes a write fail when the claim is not the one that was looked at."""
    known = {"uid": claim.uid, "resourceVersion": claim.resource_version}
    return {name: text for name, text in known.items() if text}


def _status_of(problem: Exception) -> int | None:
    """The HTTP status that a client's exception tells of, 0 when there was no answer."""
    status = getattr(problem, "code", getattr(problem, "status", None))
    return status if isinstance(status, int) else None


def _is_conflict(problem: Exception) -> bool:
    return _status_of(problem) == _CONFLICT


def _leaves_doubt(problem: Exception) -> bool:
    """Whether the write may have been carried out all the same."""
    return getattr(problem, "reason", "") == "Uncertain" or (_status_of(problem) or 0) >= 500


def _claim(answer: Any) -> ResourceClaim:
    """The claim that the API server answered with."""
    if isinstance(answer, Mapping):
        answer = decode_object(answer)
    if not isinstance(answer, ResourceClaim):
        raise TypeError(f"writing a ResourceClaim was answered with {type(answer).__name__}")
    return answer


def _allocation_json(allocation: AllocationResult, now: float) -> dict[str, Any]:
    plain = msgspec.to_builtins(msgspec.structs.replace(allocation, allocation_timestamp=None))
    moment = datetime.fromtimestamp(Time(now), UTC)
    return {**plain, "allocationTimestamp": moment.strftime("%Y-%m-%dT%H:%M:%SZ")}
