"""What may bring back a pod that waits for claims or devices."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.framework.events import Action, EventHint, Resource
from stowplan.objects import Pod, ResourceClaim
from stowplan.plugins.dynamicresources.claims import ClaimProblem, pod_claims
from stowplan.plugins.dynamicresources.ledger import Ledger
from stowplan.plugins.waking import is_same


class ClaimHints:
    """The hints of DynamicResources."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def events(self) -> Sequence[EventHint]:
        on_nodes = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        added_or_changed = Action.ADD | Action.UPDATE
        return (
            EventHint(Resource.NODE, on_nodes),
            EventHint(Resource.RESOURCE_CLAIM, added_or_changed, self._claim_changed),
            EventHint(Resource.POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM, self._claim_was_made),
            EventHint(Resource.DEVICE_CLASS, added_or_changed),
            EventHint(Resource.RESOURCE_SLICE, added_or_changed),
        )

    def _claim_changed(self, pod: Pod, old: ResourceClaim | None, new: ResourceClaim) -> bool:
        """Devices that anybody gave back, or something about a claim of the pod itself; as long as one of
        its claims is missing, nothing helps."""
        claims = self._claims_of(pod)
        if claims is None:
            return False
        if old is not None and old.status.allocation is not None and new.status.allocation is None:
            return True
        if all(claim.uid != new.uid for claim in claims):
            return False
        return old is None or old.status != new.status

    def _claim_was_made(self, pod: Pod, old: Pod | None, new: Pod) -> bool:
        return is_same(pod, new) and self._claims_of(new) is not None

    def _claims_of(self, pod: Pod) -> list[ResourceClaim] | None:
        self._ledger.refresh()
        try:
            return pod_claims(pod, self._ledger)
        except ClaimProblem:
            return None
