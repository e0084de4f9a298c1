"""What the plugin knows about one pod during its cycle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from stowplan.objects import NodeTerm, ResourceClaim
from stowplan.objects.devices import AllocationResult
from stowplan.objects.pod import ExtendedResourceRequestMapping
from stowplan.plugins.dynamicresources.extended import SPECIAL_NAME
from stowplan.plugins.dynamicresources.memory import Question


@dataclass(eq=False)
class Variant:
    """What has to be allocated on some of the nodes: the pod's own claims, and one for those extended
    resources that these nodes do not offer themselves."""

    numbers: Sequence[int] = ()
    """Which of the pod's claims these are."""
    claims: Sequence[ResourceClaim] = ()
    question: Question | None = None
    """None when there is nothing to allocate."""
    mappings: tuple[ExtendedResourceRequestMapping, ...] = ()


@dataclass(eq=False)
class PodClaims:
    """All claims of the pod, the scheduler's own last. Shared by all points of the cycle."""

    claims: list[ResourceClaim]
    special: int | None = None
    """Where in `claims` the one for extended resources is."""
    resources: tuple[str, ...] = ()
    """The extended resources that the pod asks for."""
    reachable: dict[int, tuple[NodeTerm, ...]] = field(default_factory=dict)
    """By the number of an allocated claim, the nodes from which it can be used, if not all."""
    unready: frozenset[int] = frozenset()
    """Allocated claims whose devices did not become ready."""
    to_allocate: tuple[int, ...] = ()
    variants: dict[int, Variant] = field(default_factory=dict)
    """By the set of resources that have to come from devices, as bits."""
    decided: dict[int, AllocationResult] = field(default_factory=dict)
    """Set by Reserve: what each claim is given."""
    flying: list[ResourceClaim] = field(default_factory=list)
    """Set by Reserve: the claims that were signalled to be in flight."""
    mappings: tuple[ExtendedResourceRequestMapping, ...] = ()
    """Set by Reserve: which request of the scheduler's own claim serves which container."""

    @property
    def own(self) -> Sequence[int]:
        """The numbers of the claims that the pod names."""
        return range(len(self.claims) if self.special is None else self.special)

    @property
    def special_claim(self) -> ResourceClaim | None:
        return None if self.special is None else self.claims[self.special]

    @property
    def stale_special(self) -> ResourceClaim | None:
        """A claim for extended resources that an earlier attempt left behind."""
        claim = self.special_claim
        return claim if claim is not None and claim.name != SPECIAL_NAME else None


def allocated(claim: ResourceClaim, allocation: AllocationResult) -> ResourceClaim:
    """The claim with devices."""
    status = msgspec.structs.replace(claim.status, allocation=allocation)
    return msgspec.structs.replace(claim, status=status)
