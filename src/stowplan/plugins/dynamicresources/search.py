"""Finds devices for the claims of a pod on one node.

An exhaustive search, claim after claim, request after request, device after device, which takes the
first solution. Within a request only combinations are tried, not their permutations; a request with
alternatives takes the first for which everything after it can be had too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from stowplan.plugins.dynamicresources.capacity import Amount, consumed_capacity, fits
from stowplan.plugins.dynamicresources.pools import Pool, PoolDevice
from stowplan.plugins.dynamicresources.requests import (
    MAX_RESULTS,
    AllocationError,
    Chosen,
    ClaimPlan,
    NodeAllocationError,
    RequestPlan,
    Solution,
)
from stowplan.plugins.dynamicresources.sites import Candidate, Site
from stowplan.plugins.dynamicresources.state import (
    AllocatedState,
    Amounts,
    ConsumedCapacity,
    DeviceID,
    PoolID,
)

INVALID_POOLS = "invalid resource pools were encountered"
_NOTHING: Mapping[str, int] = {}


class _Found(Enum):
    YES = auto()
    NO = auto()
    TOO_MANY = auto()
    """The claim would have more devices than fit into its status: give up more than the last choice."""


_Place: TypeAlias = tuple[int, int]
"""Claim and request, by number."""


@dataclass(slots=True)
class _Taken:
    """What trying a device changed, to be undone."""

    claim: int
    request: RequestPlan
    device: PoolDevice
    pool: Pool
    counted: bool = False
    constraints: int = 0
    marked: bool = False
    consumed: dict[str, Amount] | None = None
    was_shared: bool = False
    recorded: bool = False


class Search:
    """One search on one node."""

    def __init__(
        self,
        claims: Sequence[ClaimPlan],
        site: Site,
        state: AllocatedState,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        self.claims = claims
        self.site = site
        self.state = state
        self.tick = tick
        """Called at every step; may raise to stop the search."""
        self.constraints = [claim.fresh_constraints() for claim in claims]
        self.devices: list[list[Chosen]] = [[] for _ in claims]
        self.every: dict[RequestPlan, list[Candidate]] = {}
        """For requests that want all devices: which these are."""
        self._in_use: dict[DeviceID, set[int]] = {}
        """Devices taken for claims of this pod, and for which."""
        self._capacity = ConsumedCapacity()
        self._counters: dict[PoolID, dict[str, Amounts]] = {}

    def run(self) -> Solution | None:
        """The first solution, or None. AllocationError when a claim or class is broken,
        NodeAllocationError when it is the node's pools."""
        for claim in self.claims:
            self._check(claim)
        found = self._next_request(0, 0)
        if found is _Found.YES:
            return Solution(self.claims, self.devices)
        if found is _Found.TOO_MANY:
            raise AllocationError("allocation max size exceeded")
        if self.site.flawed:
            raise NodeAllocationError(INVALID_POOLS)
        return None

    # What is asked for

    def _check(self, claim: ClaimPlan) -> None:
        least = 0
        for alternatives in claim.requests:
            least += min([self._count(request) for request in alternatives])
        if least > MAX_RESULTS:
            asked = f"claim {claim.key}: number of requested devices {least}"
            raise AllocationError(f"{asked} exceeds the claim limit of {MAX_RESULTS}")
        if problem := claim.constraint_problem():
            raise AllocationError(problem)

    def _count(self, request: RequestPlan) -> int:
        """How many devices a request is about."""
        if problem := request.problem():
            raise AllocationError(problem)
        if not request.wants_all:
            return request.asked.count
        wanted = self.every[request] = []
        where = f"claim {request.claim}, request {request.name}: asks for all devices"
        for pool, candidates in self.site.pools:
            if pool.incomplete:
                raise AllocationError(f"{where}, but resource pool {pool.name} is currently being updated")
            if pool.invalid:
                raise AllocationError(f"{where}, but resource pool {pool.name} is currently invalid")
            wanted += [
                one
                for one in candidates
                if request.selects(one.device) and one.here and self._has_room(request, one.device)
            ]
        return len(wanted)

    def _size(self, request: RequestPlan) -> int:
        return len(self.every[request]) if request.wants_all else request.asked.count

    # The search itself

    def _next_request(self, claim: int, number: int) -> _Found:
        self.tick()
        if claim == len(self.claims):
            return _Found.YES
        if number == len(self.claims[claim].requests):
            found = self._next_request(claim + 1, 0)
            # The limit is one of each claim: another choice here changes nothing for the next claim.
            return _Found.NO if found is _Found.TOO_MANY else found
        alternatives = self.claims[claim].requests[number]
        if not alternatives[0].parent:
            return self._devices_for((claim, number), alternatives[0], 0, 0)
        result = _Found.TOO_MANY
        for request in alternatives:
            found = self._devices_for((claim, number), request, 0, 0)
            if found is _Found.YES:
                return found
            if found is _Found.NO:
                result = found
        return result

    def _devices_for(self, place: _Place, request: RequestPlan, have: int, start: int) -> _Found:
        """Finds the devices of a request beyond those it has, among the candidates from `start` on."""
        self.tick()
        claim, number = place
        size = self._size(request)
        if request.wants_all and not size:
            return _Found.NO
        if have >= size:
            return self._next_request(claim, number + 1)
        if len(self.devices[claim]) + size - have > MAX_RESULTS:
            return _Found.TOO_MANY
        if request.wants_all:
            return self._take_all(place, request, have)
        candidates = self.site.candidates
        for at in range(start, len(candidates)):
            candidate = candidates[at]
            if not self._eligible(claim, request, candidate):
                continue
            taken = self._take(claim, request, candidate, must=False)
            if taken is None:
                continue
            found = self._devices_for(place, request, have + 1, at + 1)
            if found is _Found.YES:
                return found
            self._release(taken)
            if found is _Found.TOO_MANY:
                return found
        return _Found.NO

    def _take_all(self, place: _Place, request: RequestPlan, have: int) -> _Found:
        """All devices means these and no others, so there is one way only."""
        taken = self._take(place[0], request, self.every[request][have], must=True)
        if taken is None:
            return _Found.NO
        found = self._devices_for(place, request, have + 1, 0)
        if found is not _Found.YES:
            self._release(taken)
        return found

    def _eligible(self, claim: int, request: RequestPlan, candidate: Candidate) -> bool:
        device = candidate.device
        if request.admin:
            if claim in self._in_use.get(device.id, ()):
                return False
        elif self._is_used(device.id):
            return False
        return request.selects(device) and candidate.here and self._has_room(request, device)

    # One device

    def _is_used(self, device: DeviceID) -> bool:
        return device in self.state.devices or bool(self._in_use.get(device))

    def _has_room(self, request: RequestPlan, device: PoolDevice) -> bool:
        if not request.capacities and device.always_has_room and device.id not in self.state.capacity:
            return True
        taken = self.state.capacity.get(device.id, _NOTHING)
        return fits(request.capacities, device.capacities, taken, self._capacity.get(device.id, _NOTHING))

    def _take(self, claim: int, request: RequestPlan, candidate: Candidate, *, must: bool) -> _Taken | None:
        """Takes a device for a request, or says None and leaves all as it was."""
        device = candidate.device
        if request.admin:
            if not device.shared and claim in self._in_use.get(device.id, ()):
                return None
        elif self._is_used(device.id):
            return None
        taken = _Taken(claim, request, device, candidate.pool)
        already_shared = device.shared and (device.id in self.state.capacity or device.id in self._capacity)
        if device.counters and not already_shared:
            if not self._count_in(taken):
                return None
            taken.counted = True
        if not request.tolerates(device.device.taints):
            self._release(taken)
            return None
        for constraint in self.constraints[claim]:
            if not constraint.add(request.base_name, request.subrequest, device.device, device.id[0]):
                self._release(taken)
                if must:
                    where = f"claim {request.claim}, request {request.name}"
                    why = "because a claim constraint would not be satisfied"
                    raise AllocationError(f"{where}: cannot add device {'/'.join(device.id)} {why}")
                return None
            taken.constraints += 1
        if not device.shared:
            self._in_use.setdefault(device.id, set()).add(claim)
            taken.marked = True
        if not self._has_room(request, device):
            self._release(taken)
            return None
        if device.shared:
            self._share(taken)
        self.devices[claim].append(Chosen(request, device, taken.consumed))
        taken.recorded = True
        return taken

    def _share(self, taken: _Taken) -> None:
        device = taken.device
        taken.consumed = consumed_capacity(taken.request.capacities, device.capacities)
        taken.was_shared = device.id in self._capacity
        self._capacity.insert(device.id, {name: amount.nano for name, amount in taken.consumed.items()})

    def _release(self, taken: _Taken) -> None:
        """Undoes what was done, last things first."""
        device, claim, request = taken.device, taken.claim, taken.request
        if taken.recorded:
            self.devices[claim].pop()
        if taken.consumed is not None:
            self._capacity.take_out(device.id, {name: amount.nano for name, amount in taken.consumed.items()})
            if taken.was_shared:
                # An earlier share that takes nothing still has to count as one.
                self._capacity.setdefault(device.id, {})
        if taken.marked:
            self._in_use[device.id].discard(claim)
        for constraint in reversed(self.constraints[claim][: taken.constraints]):
            constraint.remove(request.base_name, request.subrequest)
        if taken.counted:
            self._count_out(taken)

    # Counters

    def _count_in(self, taken: _Taken) -> bool:
        """Takes a device's share of its pool's counters, unless there is not enough left."""
        used = self._counters.setdefault(taken.pool.id, {})
        for counter_set, amounts in taken.device.counters:
            counted = used.setdefault(counter_set, {})
            for name, amount in amounts.items():
                counted[name] = counted.get(name, 0) + amount
        for counter_set, available in taken.pool.available_counters(self.state).items():
            counted = used.get(counter_set, {})
            if any(left < counted.get(name, 0) for name, left in available.items()):
                self._count_out(taken)
                return False
        return True

    def _count_out(self, taken: _Taken) -> None:
        used = self._counters[taken.pool.id]
        for counter_set, amounts in taken.device.counters:
            for name, amount in amounts.items():
                used[counter_set][name] -= amount
