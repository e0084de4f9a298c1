"""The ledger: who has which devices, from the claims as written and from what was decided since.

Between the decision and the day when the API server's answer comes back, an allocation exists only
here: first in flight (decided, not yet written), then assumed (written, not yet heard of). There is one
ledger per cluster, however many profiles schedule on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from stowplan.cluster import Cluster
from stowplan.cluster.tables import object_key
from stowplan.objects import ResourceClaim, ResourceSlice
from stowplan.objects.devices import AllocationResult
from stowplan.plugins.dynamicresources.sites import Sites
from stowplan.plugins.dynamicresources.state import AllocatedState


@dataclass
class _InFlight:
    """An allocation that is decided but not written, and how many pods are about to use it."""

    claim: ResourceClaim
    sharers: int = 1


def identity(claim: ResourceClaim) -> str:
    """What tells a claim from another one of the same name that came later."""
    return claim.uid or claim.key


class Ledger:
    """All devices of a cluster and all claims on them. Call `refresh` before reading."""

    def __init__(self, cluster: Cluster) -> None:
        self.state = AllocatedState()
        self.sites = Sites()
        self._claims = cluster.resource_claims
        self._slices = cluster.resource_slices
        self._claims_version = -1
        self._slices_version = -1
        self._seen_slices: dict[str, ResourceSlice] = {}
        self._identities: dict[str, str] = {}
        """By key, the identity of the claim that is counted under it."""
        self._owners: dict[str, str] = {}
        """By key, the uid of the object that a claim was made for; and the other way round:"""
        self._made_for: dict[str, dict[str, None]] = {}
        self._counted: dict[str, AllocationResult] = {}
        """By identity, what is counted in `state`."""
        self._in_flight: dict[str, _InFlight] = {}
        self._assumed: dict[str, ResourceClaim] = {}
        self._unheard: set[str] = set()
        """Keys of assumed claims that were just created: the cluster does not know them yet."""

    # What others wrote

    def refresh(self) -> None:
        """Takes in what changed in the cluster."""
        if self._slices_version != self._slices.version:
            self._refresh_slices()
        if self._claims_version != self._claims.version:
            self._refresh_claims()

    def _refresh_slices(self) -> None:
        changed = None if self._slices_version < 0 else self._slices.changed_since(self._slices_version)
        if changed is None:
            changed = {*self._seen_slices, *map(object_key, self._slices)}
        for key in sorted(changed):
            before, after = self._seen_slices.pop(key, None), self._slices.get(key)
            if after is not None:
                self._seen_slices[key] = after
            if before is not after:
                self.sites.change(before, after)
        self._slices_version = self._slices.version

    def _refresh_claims(self) -> None:
        changed = None if self._claims_version < 0 else self._claims.changed_since(self._claims_version)
        if changed is None:
            changed = {*self._identities, *map(object_key, self._claims)}
        for key in changed:
            self._recount(key)
        self._claims_version = self._claims.version

    def _recount(self, key: str) -> None:
        claim = self.claim(key)
        before = self._identities.pop(key, None)
        self._note_owner(key, claim)
        if claim is not None:
            self._identities[key] = identity(claim)
        if before is not None and (claim is None or before != identity(claim)):
            self._count(before, None)
        if claim is not None:
            self._count(identity(claim), claim.status.allocation)

    def _note_owner(self, key: str, claim: ResourceClaim | None) -> None:
        owner = claim.controller if claim is not None else None
        uid = owner.uid if owner is not None else ""
        before = self._owners.pop(key, "")
        if before and before != uid:
            keys = self._made_for[before]
            del keys[key]
            if not keys:
                del self._made_for[before]
        if uid:
            self._owners[key] = uid
            self._made_for.setdefault(uid, {})[key] = None

    def _count(self, who: str, written: AllocationResult | None) -> None:
        """Counts what a claim has: as written, or else as decided."""
        flight = self._in_flight.get(who)
        wanted = written if written is not None or flight is None else flight.claim.status.allocation
        counted = self._counted.get(who)
        if wanted is counted or wanted == counted:
            return
        if counted is not None:
            self.state.remove(self._counted.pop(who))
        if wanted is not None:
            self._counted[who] = wanted
            self.state.add(wanted)

    # Claims

    def claim(self, key: str) -> ResourceClaim | None:
        """The claim as it is by now, whoever knows it best."""
        stored = self._claims.get(key)
        assumed = self._assumed.get(key)
        if assumed is None:
            return stored
        if stored is None and key in self._unheard:
            return assumed
        self._unheard.discard(key)
        if stored is None or not _newer(assumed, stored):
            del self._assumed[key]
            return stored
        return assumed

    def of_pod(self, namespace: str, uid: str, annotation: str) -> ResourceClaim | None:
        """The claim with this annotation that belongs to a pod."""
        for key in self._made_for.get(uid, ()):
            claim = self.claim(key)
            if (
                claim is not None
                and claim.namespace == namespace
                and claim.annotations.get(annotation) == "true"
            ):
                return claim
        return None

    def assume(self, claim: ResourceClaim) -> None:
        """The claim was written like this; the cluster will hear of it."""
        self._assumed[claim.key] = claim
        if claim.key not in self._claims:
            self._unheard.add(claim.key)
        self._recount(claim.key)

    def forget(self, claim: ResourceClaim) -> None:
        """The claim is about to be deleted by whoever created it."""
        self._unheard.discard(claim.key)
        if self._assumed.pop(claim.key, None) is not None:
            self._recount(claim.key)

    # Decided, not yet written

    def pending(self, claim: ResourceClaim) -> AllocationResult | None:
        """What was decided for a claim and is not written yet."""
        flight = self._in_flight.get(identity(claim))
        return None if flight is None else flight.claim.status.allocation

    def signal(self, claim: ResourceClaim) -> None:
        """An allocation was decided: the claim has it already."""
        who = identity(claim)
        flight = self._in_flight.get(who)
        if flight is not None:
            flight.sharers += 1
            return
        self._in_flight[who] = _InFlight(claim)
        self._recount_identity(who, claim.key)

    def settle(self, claim: ResourceClaim, *, force: bool = False) -> bool:
        """A pod no longer needs a decided allocation. It ends with its last pod, or by force."""
        who = identity(claim)
        flight = self._in_flight.get(who)
        if flight is None:
            return False
        flight.sharers -= 1
        if flight.sharers and not force:
            return False
        del self._in_flight[who]
        self._recount_identity(who, claim.key)
        return True

    def _recount_identity(self, who: str, key: str) -> None:
        current = self.claim(key)
        same = current is not None and identity(current) == who
        self._count(who, current.status.allocation if current is not None and same else None)


def _newer(one: ResourceClaim, other: ResourceClaim) -> bool:
    """Whether a claim is of a later version than another. Of versions that are no numbers it counts as
    later as long as they differ."""
    if one.uid != other.uid:
        return False
    if one.resource_version.isdecimal() and other.resource_version.isdecimal():
        return int(one.resource_version) > int(other.resource_version)
    return one.resource_version != other.resource_version


_ledgers: WeakKeyDictionary[Cluster, Ledger] = WeakKeyDictionary()


def ledger_of(cluster: Cluster) -> Ledger:
    """The ledger of a cluster."""
    ledger = _ledgers.get(cluster)
    if ledger is None:
        ledger = _ledgers[cluster] = Ledger(cluster)
    return ledger
