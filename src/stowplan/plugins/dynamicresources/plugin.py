"""DynamicResources: a pod goes where the devices that its claims ask for can be had.

Claims that have devices say from which nodes these can be used. For the others devices are searched on
every node; what was found on the chosen one is noted in memory at Reserve, and written before binding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from stowplan.cluster import IntColumn, Nodes
from stowplan.cluster.extended import extended_resources, may_be_device
from stowplan.framework.args import PluginArgs
from stowplan.framework.contract import (
    SKIP,
    CycleState,
    FilterPlugin,
    Handle,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    Preflight,
    Reads,
    ReservePlugin,
    ScorePlugin,
)
from stowplan.framework.decision import Rejections
from stowplan.framework.events import EventHint
from stowplan.framework.normalizing import default_normalize
from stowplan.framework.status import Status, error, unresolvable, unschedulable
from stowplan.framework.verdict import Verdict
from stowplan.objects import Node, Pod, ResourceClaim
from stowplan.objects.devices import DeviceRequest
from stowplan.objects.duration import Duration
from stowplan.plugins.dynamicresources import extended
from stowplan.plugins.dynamicresources.binding import BindingError, ClaimWriter
from stowplan.plugins.dynamicresources.claims import (
    ClaimProblem,
    ConditionFailedError,
    awaits_conditions,
    is_ready,
    pod_claims,
    reserved_for,
    took_too_long,
)
from stowplan.plugins.dynamicresources.cycle import PodClaims, allocated
from stowplan.plugins.dynamicresources.filtering import UNAVAILABLE, Filtering, FilterTimeoutError
from stowplan.plugins.dynamicresources.hints import ClaimHints
from stowplan.plugins.dynamicresources.ledger import ledger_of
from stowplan.plugins.dynamicresources.reach import compiled_terms

_CHECK_EVERY = 256
_STILL_NOT = unschedulable("still not schedulable")
_NOTHING_NEW = unschedulable("no new claims to deallocate")


class DynamicResourcesArgs(PluginArgs, frozen=True):
    """`filterTimeout`: how long devices are searched on one node (0: as long as it takes).
    `bindingTimeout`: how long devices may take to become ready."""

    filter_timeout: Duration = Duration.of_seconds(10)
    binding_timeout: Duration = Duration.of_seconds(600)

    def problems(self) -> list[tuple[str, str]]:
        found = []
        if self.filter_timeout < 0:
            found.append(("filterTimeout", "must be zero or positive"))
        if self.binding_timeout.seconds < 1:
            found.append(("bindingTimeout", "must be at least 1 second"))
        return found


class DynamicResources(
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    ScorePlugin,
    ReservePlugin,
    PreBindPlugin,
):
    """Allocates devices for resource claims."""

    Args = DynamicResourcesArgs
    reads = Reads.CLUSTER
    shaped_by_template = True

    def __init__(self, args: DynamicResourcesArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._patience = args.binding_timeout.seconds
        self._filter_timeout = args.filter_timeout.seconds
        self._ledger = ledger_of(handle.cluster)
        self._classes = extended_resources(handle.cluster)
        self._filtering = Filtering(handle.cluster, self._ledger, self._ticker)
        self._writer = ClaimWriter(handle, self._ledger)

    def concerns(self, pod: Pod) -> bool:
        return bool(pod.spec.resource_claims) or any(map(may_be_device, pod.spec.request))

    def _ticker(self, node: Node) -> Callable[[], None]:
        """Stops a search that takes too long. Looking at the clock is dearer than a step, so it is done
        every few hundred steps."""
        steps = 0
        deadline = 0.0

        def tick() -> None:
            nonlocal steps, deadline
            steps += 1
            if steps % _CHECK_EVERY:
                return
            now = self.handle.now()
            deadline = deadline or now + self._filter_timeout
            if now > deadline:
                raise FilterTimeoutError(node.name)

        return tick if self._filter_timeout else _no_tick

    def events(self) -> Sequence[EventHint]:
        return ClaimHints(self._ledger).events()

    # PreEnqueue, PreFilter

    def pre_enqueue(self, pod: Pod) -> Status | None:
        if not pod.spec.resource_claims:
            return None
        self._ledger.refresh()
        try:
            pod_claims(pod, self._ledger)
        except ClaimProblem as problem:
            return unresolvable(str(problem))
        return None

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        resources = extended.device_resources(pod.spec)
        backed = any(self._classes.class_of(name) is not None for name in resources)
        if not pod.spec.resource_claims and not backed:
            return SKIP
        self._ledger.refresh()
        try:
            work = PodClaims(pod_claims(pod, self._ledger))
            if backed:
                self._add_special(pod, work, resources)
            if not work.claims:
                return SKIP
            self._sort_out(work)
        except ClaimProblem as problem:
            return unresolvable(str(problem))
        state[DynamicResources] = work
        return None

    def _add_special(self, pod: Pod, work: PodClaims, resources: tuple[str, ...]) -> None:
        left_over = self._ledger.of_pod(pod.namespace, pod.uid, extended.ANNOTATION)
        work.special = len(work.claims)
        work.claims.append(left_over or extended.special_claim(pod))
        work.resources = resources

    def _sort_out(self, work: PodClaims) -> None:
        """Which claims have devices, and which have to get some."""
        to_allocate = []
        unready = set()
        for number, claim in enumerate(work.claims):
            allocation = claim.status.allocation
            if allocation is None:
                self._check(claim)
                to_allocate.append(number)
                continue
            if allocation.node_selector is not None:
                work.reachable[number] = compiled_terms(allocation.node_selector)
            try:
                ready = is_ready(claim) or not took_too_long(claim, self.handle.now(), self._patience)
            except ConditionFailedError:
                ready = False
            if not ready:
                unready.add(number)
        work.to_allocate = tuple(to_allocate)
        work.unready = frozenset(unready)

    def _check(self, claim: ResourceClaim) -> None:
        if self._ledger.pending(claim) is not None:
            raise ClaimProblem(f"resource claim {claim.key} is in the process of being allocated")
        for request in claim.spec.devices.requests:
            if request.exactly is None and not request.first_available:
                raise ClaimProblem(
                    f"resource claim {claim.key}, request {request.name}: unknown request type"
                )
            for name, class_name in _classes_of(request):
                if not class_name:
                    raise ValueError(f"request {name}: unsupported request type")
                if class_name not in self.handle.cluster.device_classes:
                    raise ClaimProblem(f"request {name}: device class {class_name} does not exist")

    # Filter, PostFilter, Score

    def filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        work = _work(state)
        return Verdict.passes(len(nodes)) if work is None else self._filtering.verdict(pod, work, nodes)

    def post_filter(self, state: CycleState, pod: Pod, rejections: Rejections) -> PostFilterResult:
        work = _work(state)
        if work is None:
            return PostFilterResult(_NOTHING_NEW)
        for number in sorted(self._in_the_way(work, rejections)):
            claim = work.claims[number]
            if number != work.special and all(one.uid == pod.uid for one in claim.status.reserved_for):
                self.handle.later(self._writer.deallocate(claim))
                return PostFilterResult(unschedulable("deallocation of ResourceClaim completed"))
        if work.stale_special is not None:
            self.handle.later(self._writer.delete(work.stale_special))
            return PostFilterResult(unschedulable("deletion of ResourceClaim completed"))
        return PostFilterResult(_STILL_NOT)

    def _in_the_way(self, work: PodClaims, rejections: Rejections) -> set[int]:
        """The claims whose devices keep the pod from some node that nothing else speaks against."""
        if not work.unready and not work.reachable:
            return set()
        status = UNAVAILABLE.by(self.name)
        rows = range(self.handle.cluster.table.size)
        nodes = self.handle.cluster.nodes.at(
            np.array([row for row in rows if rejections.status_of_row(row) == status], np.int64)
        )
        if not nodes.size:
            return set()
        return set(work.unready) | {
            number
            for number, terms in work.reachable.items()
            if self._filtering.unavailable(PodClaims([], reachable={number: terms}), nodes).any()
        }

    def score(self, state: CycleState, pod: Pod, nodes: Nodes) -> IntColumn | int:
        work = _work(state)
        return 0 if work is None else self._filtering.scores(pod, work, nodes)

    def normalize(self, state: CycleState, pod: Pod, scores: IntColumn, nodes: Nodes) -> IntColumn:
        return default_normalize(scores)

    def trace_allocations(self, state: CycleState, pod: Pod, node_name: str) -> Mapping[str, tuple[str, ...]]:
        """What the claims that the pod names would get on a node, for explanations. A claim that it names
        twice gets what is found first, as in `reserve`."""
        work = _work(state)
        outcome = None if work is None else self._filtering.outcome(pod, work, node_name)
        if work is None or outcome is None:
            return {}
        found: dict[str, tuple[str, ...]] = {}
        for number, result in outcome[1].items():
            if number != work.special:
                devices = [
                    f"{one.request} {one.driver}/{one.pool}/{one.device}" for one in result.devices.results
                ]
                found.setdefault(work.claims[number].key, tuple(devices))
        return found

    # Reserve

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        work = _work(state)
        if work is None or not work.to_allocate:
            return None
        outcome = self._filtering.outcome(pod, work, node_name)
        if outcome is None:
            return error("claim allocation not found for node")
        variant, work.decided = outcome
        work.mappings = variant.mappings
        for number, claim in zip(variant.numbers, variant.claims, strict=True):
            decided = allocated(claim, work.decided[number])
            self._ledger.signal(decided)
            work.flying.append(decided)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        work = _work(state)
        if work is None:
            return
        for claim in work.flying:
            self._ledger.settle(claim)
        work.flying.clear()
        for number in work.own:
            claim = work.claims[number]
            if claim.status.allocation is not None and reserved_for(claim, pod):
                self.handle.later(self._writer.unreserve(claim, pod))
        if work.stale_special is not None:
            self._ledger.forget(work.stale_special)
            self.handle.later(self._writer.delete(work.stale_special))

    # PreBind

    def pre_bind_preflight(self, state: CycleState, pod: Pod, node_name: str) -> Preflight:
        return Preflight(SKIP if _work(state) is None else None, parallel=True)

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        work = _work(state)
        if work is None:
            return None
        try:
            for number, claim in enumerate(work.claims):
                idle = number == work.special and number not in work.decided
                if not idle and not reserved_for(claim, pod):
                    await self._bind_claim(work, number, pod)
            waiting = [claim.key for claim in work.claims if awaits_conditions(claim)]
            if waiting:
                await self._writer.wait_until_ready(waiting, self._patience)
        except (BindingError, ConditionFailedError) as problem:
            return error(str(problem))
        return None

    async def _bind_claim(self, work: PodClaims, number: int, pod: Pod) -> None:
        """Writes what was decided, and that the pod uses the claim."""
        decided = work.decided.get(number)
        flying = next((one for one in work.flying if one.key == work.claims[number].key), None)
        if number == work.special and work.stale_special is None and flying is not None:
            in_mind = msgspec.structs.replace(flying, status=work.claims[number].status)
            work.claims[number] = await self._writer.create_special(in_mind, pod)
        written = await self._writer.reserve(work.claims[number], decided, pod)
        work.claims[number] = written
        self._ledger.assume(written)
        if flying is not None:
            self._ledger.settle(flying, force=True)
            work.flying.remove(flying)
        if number == work.special:
            await self._writer.note_special(pod, written, work.mappings)


def _work(state: CycleState) -> PodClaims | None:
    work = state.get(DynamicResources)
    return work if isinstance(work, PodClaims) else None


def _classes_of(request: DeviceRequest) -> list[tuple[str, str]]:
    """Full name and class of a request or of its alternatives."""
    if request.exactly is not None:
        return [(request.name, request.exactly.device_class_name)]
    return [(f"{request.name}/{one.name}", one.device_class_name) for one in request.first_available]


def _no_tick() -> None:
    pass
