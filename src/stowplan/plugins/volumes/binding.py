"""VolumeBinding: a pod goes where its volumes can be reached or had, and gets them before it is bound.

PreFilter sorts out the claims: all must exist, and those that do not wait for their pod must be bound.
Filter asks where they can be served. Reserve sets aside what was found for the chosen node, and PreBind
writes it and waits until the claims are bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stowplan.cluster import NodeRow, Nodes
from stowplan.framework import (
    SKIP,
    Code,
    CycleState,
    FilterPlugin,
    Handle,
    PluginArgs,
    PreBindPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    ReservePlugin,
    ScorePlugin,
    Status,
    Verdict,
    unresolvable,
)
from stowplan.framework.contract import Preflight
from stowplan.framework.events import EventHint
from stowplan.objects import PersistentVolume, PersistentVolumeClaim, Pod
from stowplan.plugins.volumes.assumed import Assumed
from stowplan.plugins.volumes.claims import (
    CLAIM,
    WAIT_FOR_CONSUMER,
    VolumeError,
    claim_class,
    claim_uses,
    fully_bound,
    not_found,
    ownership_problem,
)
from stowplan.plugins.volumes.finding import PodClaims, Unbound, VolumeFinder, status_of
from stowplan.plugins.volumes.hints import BINDING_EVENTS
from stowplan.plugins.volumes.matching import NO_VOLUME
from stowplan.plugins.volumes.writing import (
    Binding,
    Provision,
    Reservation,
    VolumeWriter,
    bound_to,
    selecting,
)

UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"


class VolumeBindingArgs(PluginArgs, frozen=True):
    """How long to wait for claims to be bound."""

    bind_timeout_seconds: int = 600
    shape: list[Any] | None = None
    """How to score by capacity; only with the feature gate StorageCapacityScoring, which is not offered."""

    def problems(self) -> list[tuple[str, str]]:
        found = []
        if self.bind_timeout_seconds < 0:
            found.append(("bindTimeoutSeconds", "invalid BindTimeoutSeconds, should not be a negative value"))
        if self.shape is not None:
            found.append(
                (
                    "shape",
                    "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring",
                )
            )
        return found


@dataclass
class _State:
    """The claims of the pod and, once a node is chosen, what is set aside for them."""

    claims: PodClaims
    reservation: Reservation | None = None


class VolumeBinding(PreFilterPlugin, FilterPlugin, ReservePlugin, PreBindPlugin, PreScorePlugin, ScorePlugin):
    """Binds the claims of pods."""

    Args = VolumeBindingArgs
    reads = Reads.CLUSTER
    shaped_by_template = True

    def __init__(self, args: VolumeBindingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._volumes: Assumed[PersistentVolume] = Assumed(handle.cluster.volumes)
        self._claims: Assumed[PersistentVolumeClaim] = Assumed(handle.cluster.claims)
        self._finder = VolumeFinder(handle.cluster, self._volumes)
        self._writer = VolumeWriter(handle, self._volumes, self._claims, args.bind_timeout_seconds)

    def concerns(self, pod: Pod) -> bool:
        return any(claim_uses(pod))

    def events(self) -> Sequence[EventHint]:
        return BINDING_EVENTS

    # PreFilter

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        if not pod.spec.volumes:
            return SKIP
        uses = list(claim_uses(pod))
        if not uses:
            return SKIP
        for name, ephemeral in uses:
            problem = self._problem_with(pod, name, ephemeral)
            if problem is not None:
                return unresolvable(problem)
        claims = PodClaims()
        immediate = False
        for name, _ in uses:
            claim = self._claims.get(f"{pod.namespace}/{name}")
            assert claim is not None
            if fully_bound(claim):
                claims.bound.append(claim)
            elif (unbound := self._waiting(claim)) is not None:
                claims.unbound.append(unbound)
            else:
                immediate = True
        if immediate:
            return unresolvable(UNBOUND_IMMEDIATE)
        state[_State] = _State(claims)
        return None

    def _problem_with(self, pod: Pod, name: str, ephemeral: bool) -> str | None:
        """Why the pod cannot run whatever the node."""
        claim = self.handle.cluster.claims.get(f"{pod.namespace}/{name}")
        if claim is None:
            if ephemeral:
                return f'waiting for ephemeral volume controller to create the {CLAIM} "{name}"'
            return not_found(CLAIM, name)
        if claim.status.phase == "Lost":
            volume = claim.spec.volume_name
            return f'{CLAIM} "{name}" bound to non-existent persistentvolume "{volume}"'
        if claim.terminating:
            return f'{CLAIM} "{name}" is being deleted'
        return ownership_problem(pod, claim) if ephemeral else None

    def _waiting(self, claim: PersistentVolumeClaim) -> Unbound | None:
        """The claim, if it waits for its pod and nobody has given it a volume yet."""
        storage_class = self.handle.cluster.storage_classes.get(claim_class(claim))
        if storage_class is None:
            return None
        if storage_class.volume_binding_mode is None:
            raise VolumeError(f'VolumeBindingMode not set for StorageClass "{storage_class.name}"')
        if storage_class.volume_binding_mode != WAIT_FOR_CONSUMER or claim.spec.volume_name:
            return None
        return Unbound(claim, storage_class)

    # Filter

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        code = self._finder.find(state[_State].claims, _only(node)).codes.item(0)
        return status_of(code) if code else None

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        return Verdict(self._finder.find(state[_State].claims, nodes).codes, status_of)

    # Score: by capacity only, with a feature gate that is not offered

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        return SKIP

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> int:
        return 0

    # Reserve

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        noted: _State | None = state.get(_State)
        if noted is None or not noted.claims.unbound:
            return None
        node = self.handle.cluster.node(node_name)
        if node is None:
            return Status(Code.ERROR, (not_found("node", node_name),))
        found = self._finder.find(noted.claims, _only(node))
        if code := found.codes.item(0):
            return Status(Code.ERROR, status_of(code).reasons)
        noted.reservation = reservation = Reservation()
        for claim, choice in found.choices:
            number = choice.item(0)
            if number != NO_VOLUME:
                volume = found.matching.volume(number)
                binding = Binding(claim, volume, bound_to(volume, claim))
                if binding.after is not volume:
                    self._volumes.assume(volume, binding.after)
                reservation.bindings.append(binding)
        for claim, wanted in found.provisions:
            if wanted.item(0):
                provision = Provision(claim, selecting(claim, node_name))
                self._claims.assume(claim, provision.after)
                reservation.provisions.append(provision)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        noted: _State | None = state.get(_State)
        if noted is not None and noted.reservation is not None:
            self._writer.take_back(noted.reservation)
            noted.reservation = None

    # PreBind

    def pre_bind_preflight(self, state: CycleState, pod: Pod, node_name: str) -> Preflight:
        noted: _State | None = state.get(_State)
        nothing_to_do = noted is None or noted.reservation is None
        return Preflight(SKIP if nothing_to_do else None, parallel=True)

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        noted: _State | None = state.get(_State)
        if noted is None or noted.reservation is None:
            return None
        try:
            await self._writer.carry_out(noted.reservation, pod, node_name)
        except VolumeError as problem:
            return Status(Code.ERROR, (str(problem),))
        return None


def _only(node: NodeRow) -> Nodes:
    return Nodes(node.cluster, np.array([node.row]))
