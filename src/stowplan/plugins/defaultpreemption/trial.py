"""One node at a time: every lesser pod is removed, in a trial, and put back if there is still room."""

from __future__ import annotations

from stowplan.cluster import NodeRow
from stowplan.framework.contract import CycleState
from stowplan.framework.cycle import run_with_nominated, tell_added, tell_removed
from stowplan.framework.failure import PluginError
from stowplan.framework.profile import Profile
from stowplan.framework.status import Status, error, unresolvable
from stowplan.objects import Pod
from stowplan.plugins.defaultpreemption.budgets import Budgets
from stowplan.plugins.defaultpreemption.victims import Candidate, by_importance, put_together

NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")


def no_victim_needed(node_name: str) -> Status:
    """A node that rejected the pod and then takes it with everybody on it: something is inconsistent."""
    return error(f'expected at least one victim pod on node "{node_name}"')


def try_node(profile: Profile, state: CycleState, pod: Pod, row: int, budgets: Budgets) -> Candidate | Status:
    """Whether and how preemption on this node would help; otherwise why not. Leaves no trace."""
    cluster = profile.host.cluster
    node = NodeRow(cluster, row)
    lesser = [other for other in node.pods if other.spec.priority < pod.spec.priority]
    if not lesser:
        return NO_VICTIMS
    attempt = _Attempt(profile, state.clone(), pod, node)
    try:
        with cluster.trial():
            return attempt.run(by_importance(lesser), budgets)
    except PluginError as failure:
        return error(str(failure))


class _Attempt:
    """The trial on one node, under way."""

    def __init__(self, profile: Profile, state: CycleState, pod: Pod, node: NodeRow) -> None:
        self.profile = profile
        self.cluster = profile.host.cluster
        self.state = state
        self.pod = pod
        self.node = node

    def run(self, lesser: list[Pod], budgets: Budgets) -> Candidate | Status:
        for other in lesser:
            self._remove(other)
        status = run_with_nominated(self.profile, self.state, self.pod, self.node)
        if status is not None:
            return status
        violated = budgets.violated(lesser)
        protected = [other for other, forbidden in zip(lesser, violated, strict=True) if forbidden]
        others = [other for other, forbidden in zip(lesser, violated, strict=True) if not forbidden]
        lost = [other for other in protected if not self._reprieve(other)]
        rest = [other for other in others if not self._reprieve(other)]
        if not lost and not rest:
            return no_victim_needed(self.node.name)
        victims = put_together(lost, rest, both=bool(protected and others))
        return Candidate(self.node.row, victims, len(lost))

    def _reprieve(self, other: Pod) -> bool:
        """Puts a pod back, and leaves it if there is still room."""
        self.cluster.put_pod(other)
        tell_added(self.profile, self.state, self.pod, other, self.node)
        if run_with_nominated(self.profile, self.state, self.pod, self.node) is None:
            return True
        self._remove(other)
        return False

    def _remove(self, other: Pod) -> None:
        self.cluster.remove_pod(other.uid)
        tell_removed(self.profile, self.state, self.pod, other, self.node)
