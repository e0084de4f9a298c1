"""SchedulingGates: a pod stays out of the queue while its spec names gates.

Controllers put gates on a pod to hold it back, and take them away when whatever they prepare is ready.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.framework import Reads, Status, unresolvable
from stowplan.framework.contract import PreEnqueuePlugin
from stowplan.framework.events import Action, EventHint, Resource
from stowplan.objects import Pod
from stowplan.plugins.waking import is_same


class SchedulingGates(PreEnqueuePlugin):
    """Keeps gated pods out of the active queue."""

    reads = Reads.NODE

    def shape(self, pod: Pod) -> None:
        """No node is judged by gates."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        names = " ".join(gate.name for gate in gates)
        return unresolvable(f"waiting for scheduling gates: [{names}]")

    def events(self) -> Sequence[EventHint]:
        return (
            EventHint(Resource.POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, _opened, by_shape=True),
        )


def _opened(pod: Pod, old: Pod | None, new: Pod) -> bool:
    return is_same(pod, new)
