"""A pod that did not get a node: back to the queue, and into its condition and events why."""

from __future__ import annotations

from dataclasses import dataclass

from stowplan.engine.conditions import ConditionWriter, PodsNow
from stowplan.engine.planner import Planner, PodCondition
from stowplan.framework.decision import Decision, fit_error
from stowplan.framework.events import ASSIGNED_POD_DELETE
from stowplan.framework.handle import Host
from stowplan.framework.status import Status, error
from stowplan.objects import Pod
from stowplan.queue.queue import SchedulingQueue
from stowplan.queue.queued import QueuedPod

_MAX_NOTE = 1024
_CUT = " ..."


@dataclass(frozen=True)
class Failure:
    """Why a pod did not get a node, and who may change that."""

    status: Status
    message: str
    plugins: frozenset[str] = frozenset()
    """The plugins whose events bring the pod back; none: it comes back after a while."""
    pending: frozenset[str] = frozenset()
    nominated_node: str | None = ""
    """The node it is promised, "" for none any more, None to leave it as it is."""

    @property
    def result(self) -> str:
        return "unschedulable" if self.status.rejected else "error"

    @property
    def reason(self) -> str:
        return "Unschedulable" if self.status.rejected else "SchedulerError"

    @classmethod
    def of_decision(cls, decision: Decision) -> Failure:
        assert decision.status is not None
        rejections = decision.rejections
        return cls(
            decision.status,
            decision.message,
            rejections.plugins if rejections else frozenset(),
            rejections.pending_plugins if rejections else frozenset(),
            decision.nominated_node if decision.status.rejected else "",
        )

    @classmethod
    def at_node(cls, status: Status) -> Failure:
        """The node was chosen already when a plugin turned the pod away, or something went wrong."""
        if status.rejected:
            return cls(status, fit_error(1, dict.fromkeys(status.reasons, 1)), frozenset((status.plugin,)))
        return cls(status, status.message)

    @classmethod
    def on_the_way(cls, status: Status) -> Failure:
        """The pod was let go to its node, and something went wrong there. No event will tell that another
        attempt helps, so it is made after a while, whatever was said."""
        return cls(status, status.message)

    @classmethod
    def of_error(cls, words: str) -> Failure:
        return cls(error(words), words)


class FailureHandler:
    """What is done about a failure, the same way wherever it happened."""

    def __init__(
        self,
        host: Host,
        queue: SchedulingQueue,
        planner: Planner,
        pods: PodsNow,
        conditions: ConditionWriter,
    ) -> None:
        self._host = host
        self._queue = queue
        self._planner = planner
        self._pods = pods
        self._conditions = conditions

    def handle(self, queued: QueuedPod, failure: Failure) -> None:
        """Returns the pod to the queue, unless it is gone or has got a node, and says why."""
        pod = self._pods.get(queued.pod.key)
        if pod is None or pod.uid != queued.pod.uid or pod.node_name:
            self._host.cluster.nominations.remove(queued.pod.uid)
            self._queue.done(queued.pod.uid)
            return
        queued.pod = pod
        self._queue.add_unschedulable(queued, failure.plugins, failure.pending)
        nominations = self._host.cluster.nominations
        promised = failure.nominated_node
        if promised is None:  # as it was, be it that only the pod's status remembers
            promised = nominations.node_of(pod.uid) or pod.status.nominated_node_name
        if promised:
            nominations.add(pod, promised)
        else:
            nominations.remove(pod.uid)
        self.tell(pod, failure.message)
        condition = PodCondition("PodScheduled", "False", failure.reason, failure.message)
        self._conditions.write(pod, condition, failure.nominated_node)

    def tell(self, pod: Pod, message: str) -> None:
        """The event that `kubectl describe pod` shows."""
        if len(message) > _MAX_NOTE:
            message = message[: _MAX_NOTE - len(_CUT)] + _CUT
        self._planner.record(
            pod,
            reporter=pod.spec.scheduler_name,
            type="Warning",
            reason="FailedScheduling",
            action="Scheduling",
            note=message,
        )

    def room_was_freed(self, pod: Pod, but_not_for: Pod | None) -> None:
        """A pod that was counted on a node is not any more: others may fit now."""
        self._queue.move(ASSIGNED_POD_DELETE, pod, None, but_not_for)
