"""DefaultPreemption: when a pod fits nowhere, finds the node where removing less important pods costs least.

The node is promised (nominated) to the pod; the victims are told to the host, which removes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from zlib import crc32

from stowplan.cluster import IntColumn
from stowplan.framework.args import PluginArgs
from stowplan.framework.contract import (
    CycleState,
    Handle,
    PostFilterPlugin,
    PostFilterResult,
    PreEnqueuePlugin,
)
from stowplan.framework.decision import Rejections
from stowplan.framework.events import Action, EventHint, Resource
from stowplan.framework.status import Code, Status, error, unresolvable, unschedulable
from stowplan.framework.trace import PreemptionTrace, Victims
from stowplan.objects import Int32, Pod
from stowplan.plugins.defaultpreemption.budgets import Budgets
from stowplan.plugins.defaultpreemption.findings import Findings
from stowplan.plugins.defaultpreemption.gate import Gate
from stowplan.plugins.defaultpreemption.room import RoomSearch, room_rule
from stowplan.plugins.defaultpreemption.trial import try_node
from stowplan.plugins.defaultpreemption.victims import Candidate, best_of

NEVER = "Never"
NEVER_PREEMPTS = "not eligible due to preemptionPolicy=Never."
VICTIMS_ARE_LEAVING = "not eligible due to a terminating pod on the nominated node."
DISRUPTION_TARGET = "DisruptionTarget"
BY_SCHEDULER = "PreemptionByScheduler"
MAKING_ROOM = unresolvable("waiting for the preemption for this pod to be finished")
_PREFIX = "preemption: "


class DefaultPreemptionArgs(PluginArgs, frozen=True):
    """How many candidates are enough, where nodes have to be tried one by one: a part of the nodes, but not
    fewer than an absolute number."""

    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100

    def problems(self) -> list[tuple[str, str]]:
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        found = []
        if not 0 <= percentage <= 100:
            found.append(("minCandidateNodesPercentage", f"{percentage} is not in the valid range [0, 100]"))
        if absolute < 0:
            found.append(("minCandidateNodesAbsolute", f"{absolute} is not in the valid range [0, inf)"))
        if not percentage and not absolute:
            for one, other in (("Percentage", "Absolute"), ("Absolute", "Percentage")):
                problem = f"0: cannot be zero at the same time as minCandidateNodes{other}"
                found.append((f"minCandidateNodes{one}", problem))
        return found

    def enough(self, nodes: int) -> int:
        """How many candidates end the search among so many nodes."""
        part = nodes * self.min_candidate_nodes_percentage // 100
        return min(max(part, self.min_candidate_nodes_absolute), nodes)


class DefaultPreemption(PreEnqueuePlugin, PostFilterPlugin):
    """Preempts pods of lower priority, on the node where that does the least harm."""

    Args = DefaultPreemptionArgs
    args: DefaultPreemptionArgs

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._budgets = Budgets(handle.cluster.disruption_budgets)
        self._room = RoomSearch(handle.profile, self._budgets)
        self.attempts = 0
        """How often it was asked to make room, whatever came of it."""
        self._gate = Gate(handle.cluster)

    # PreEnqueue

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return MAKING_ROOM if self._gate.keeps_out(pod) else None

    def let_in(self) -> Iterable[str]:
        return self._gate.opened()

    def making_room(self, pod: Pod, victims: tuple[Pod, ...]) -> None:
        if victims:
            self._gate.close(pod, victims)
        else:
            self._gate.open(pod)

    def events(self) -> Sequence[EventHint]:
        """A pod that goes opens this plugin's gate; whether it helps is for the rejecting plugins to say."""
        return (EventHint(Resource.POD, Action.DELETE, _never, by_shape=True),)

    # PostFilter

    def post_filter(self, state: CycleState, pod: Pod, rejections: Rejections) -> PostFilterResult:
        self.attempts += 1
        if ineligible := self.ineligible(pod, rejections):
            return PostFilterResult(unschedulable(_PREFIX + ineligible))
        found = self._best(state, pod, rejections)
        if not found.candidates:
            if found.errors:
                return PostFilterResult(error(_PREFIX + found.error))
            message = found.message(self.handle.cluster.table.size)
            return PostFilterResult(unschedulable(_PREFIX + message), nominated_node="")
        best = found.candidates[0]
        pods = self.handle.cluster.pods
        victims = tuple(pods.get(victim.uid, victim) for victim in best.victims)
        return PostFilterResult(None, self._name(best), victims)

    def trace_preemption(self, state: CycleState, pod: Pod, rejections: Rejections) -> PreemptionTrace:
        """The same with every node tried, one by one."""
        if ineligible := self.ineligible(pod, rejections):
            return PreemptionTrace(ineligible=ineligible)
        self._budgets.refresh()
        found = Findings()
        for row in rejections.rows_with(Code.UNSCHEDULABLE).tolist():
            found.add(try_node(self.handle.profile, state, pod, row, self._budgets))
        if not found.candidates:
            problem = found.error if found.errors else found.message(self.handle.cluster.table.size)
            return PreemptionTrace(message=_PREFIX + problem)
        return PreemptionTrace(
            candidates={
                self._name(candidate): Victims(
                    tuple(victim.key for victim in candidate.victims), candidate.violations
                )
                for candidate in found.candidates
            },
            chosen=tuple(sorted(self._name(candidate) for candidate in best_of(found.candidates))),
        )

    def ineligible(self, pod: Pod, rejections: Rejections) -> str:
        """Why the pod must not preempt; empty when it may."""
        if pod.spec.preemption_policy == NEVER:
            return NEVER_PREEMPTS
        nominated = pod.status.nominated_node_name
        node = self.handle.cluster.node(nominated) if nominated else None
        if node is None:
            return ""
        status = rejections.status_of(nominated)
        if status is not None and status.code is Code.UNRESOLVABLE:
            return ""  # it will not get that node, whatever happens there
        leaving = any(
            other.spec.priority < pod.spec.priority and _terminating_by_preemption(other)
            for other in node.pods
        )
        return VICTIMS_ARE_LEAVING if leaving else ""

    def _best(self, state: CycleState, pod: Pod, rejections: Rejections) -> Findings:
        """The best candidate first, if there is one. All rows that can be judged by room at once are; the
        others, which have to be tried one by one, only until there are enough candidates."""
        found = Findings()
        rows = rejections.rows_with(Code.UNSCHEDULABLE)
        if not rows.size:
            return found
        self._budgets.refresh()
        offset = crc32(f"{self.handle.profile.host.seed}/{pod.uid}".encode()) % rows.size
        judged = None
        rule = None if self.handle.cluster.in_trial else room_rule(self.handle.profile, state, pod)
        if rule is not None:
            only_room = self._room.rows(rule, rejections, rows)
            judged = self._room.judge(rule, state, pod, rows[only_room])
            best = judged.best(offset)
            if best is not None:
                found.candidates.append(best)
            rows = rows[~only_room]
        self._try_one_by_one(state, pod, rows, offset, found)
        if judged is not None and not found.candidates:
            judged.note_failures(found)
        found.candidates = best_of(found.candidates)
        return found

    def _try_one_by_one(
        self, state: CycleState, pod: Pod, rows: IntColumn, offset: int, found: Findings
    ) -> None:
        enough = self.args.enough(len(rows))
        kindly = any(not candidate.violations for candidate in found.candidates)
        for i in range(len(rows)):
            if kindly and len(found.candidates) >= enough:
                return
            row = rows.item((offset + i) % len(rows))
            one = try_node(self.handle.profile, state, pod, row, self._budgets)
            found.add(one)
            kindly = kindly or (isinstance(one, Candidate) and not one.violations)

    def _name(self, candidate: Candidate) -> str:
        return self.handle.cluster.table.nodes[candidate.row].name


def _never(pod: Pod, old: Pod, new: None) -> bool:
    return False


def _terminating_by_preemption(pod: Pod) -> bool:
    """Whether the pod is on its way out because a scheduler preempted it."""
    if not pod.terminating:
        return False
    for condition in pod.status.conditions:
        if condition.type == DISRUPTION_TARGET:
            return condition.status == "True" and condition.reason == BY_SCHEDULER
    return False
