"""Watches another scheduler at work and decides the same pods from the same state, without writing anything.

Bindings reach us in another order than the decisions they came from. So the shadow keeps a queue of its
own, takes pods from it in the order in which the other scheduler must have, and counts a pod on its node
only when its turn has come: then the cluster is what it was when the other one decided.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from stowplan.engine.feed import Feed
from stowplan.engine.scheduler import Scheduler
from stowplan.engine.trace import Trace
from stowplan.objects import KubeObject, Pod
from stowplan.queue import QueuedPod, SchedulingQueue

log = logging.getLogger(__name__)

PATIENCE = 5.0
"""How long a pod may wait for the other scheduler, in seconds, before later ones are taken first."""


@dataclass(frozen=True)
class Difference:
    """A pod that we would have treated differently."""

    pod: str
    theirs: str
    """The node it got, or the words of its condition."""
    ours: tuple[str, ...]
    """The nodes that we would have chosen from; none when we say that no node will do."""
    trace: Trace
    out_of_turn: bool
    """Whether the pod was taken before its turn, so that the state may not have been the same."""

    def __str__(self) -> str:
        ours = " or ".join(self.ours) or self.trace.message
        return f"{self.pod}: they say {self.theirs}, we say {ours}" + (
            " (out of turn)" if self.out_of_turn else ""
        )


@dataclass
class Outcome:
    """What the other scheduler made of a pod."""

    old: Pod
    new: Pod

    @property
    def node_name(self) -> str:
        return self.new.node_name

    @property
    def message(self) -> str:
        return scheduled_message(self.new)


@dataclass
class Tally:
    """How it went so far."""

    placed: int = 0
    rejected: int = 0
    differences: list[Difference] = field(default_factory=list)


class Shadow:
    """Takes the place of the live loop: give it what the informers bring, and call `advance` when time has
    passed."""

    def __init__(
        self,
        core: Scheduler,
        queue: SchedulingQueue,
        feed: Feed,
        report: Callable[[Difference], None] = lambda difference: log.warning("%s", difference),
    ) -> None:
        self.tally = Tally()
        self._core = core
        self._queue = queue
        self._feed = feed
        self._report = report
        self._outcomes: dict[str, Outcome] = {}
        self._current: QueuedPod | None = None
        self._waiting_since = 0.0

    @property
    def scheduler_names(self) -> tuple[str, ...]:
        """The schedulers whose pods are compared."""
        return tuple(sorted(self._core.profiles))

    @property
    def waiting(self) -> int:
        """How many pods have an outcome whose turn has not come."""
        return len(self._outcomes)

    def observe(self, old: KubeObject | None, new: KubeObject | None) -> None:
        """An object was added (no old one), changed, or removed (no new one)."""
        if isinstance(old, Pod) and isinstance(new, Pod) and self._is_about_an_outcome(old, new):
            known = self._outcomes.get(new.uid)
            self._outcomes[new.uid] = Outcome(known.old if known is not None else old, new)
        elif isinstance(old, Pod) and new is None:
            self._gone(old)
        else:
            self._feed.observe(old, new)
        self.advance()

    def _is_about_an_outcome(self, old: Pod, new: Pod) -> bool:
        """Whether the other scheduler has spoken about a pod that is ours to shadow; or something happened to
        a pod that has its node already, but must not be counted there before its turn."""
        if old.node_name:
            return new.uid in self._outcomes
        if new.spec.scheduler_name not in self._core.profiles:
            return False
        return bool(new.node_name) or (
            scheduled_message(new) != "" and scheduled_message(new) != scheduled_message(old)
        )

    def _gone(self, pod: Pod) -> None:
        known = self._outcomes.pop(pod.uid, None)
        if known is not None:
            self._feed.observe(known.old, known.new)
        if self._current is not None and self._current.pod.uid == pod.uid:
            self._queue.done(pod.uid)
            self._current = None
        self._feed.observe(pod, None)

    def advance(self) -> None:
        """Goes through the pods whose turn has come and about which the other scheduler has spoken."""
        now = self._core.host.now()
        self._queue.tick()
        while True:
            if self._current is None:
                self._current = self._queue.pop()
                self._waiting_since = now
            if self._current is None:
                return
            uid = self._current.pod.uid
            if uid in self._outcomes:
                queued, self._current = self._current, None
                self._compare(queued, self._outcomes.pop(uid), out_of_turn=False)
            elif self._outcomes and now - self._waiting_since > PATIENCE:
                self._take_out_of_turn()
            else:
                return

    def _take_out_of_turn(self) -> None:
        """The other scheduler went on without the pod whose turn it is."""
        uid, outcome = next(iter(self._outcomes.items()))
        del self._outcomes[uid]
        queued = self._queue.get(outcome.new.key) or QueuedPod(outcome.old, self._core.host.now())
        self._queue.delete(outcome.old)
        self._compare(queued, outcome, out_of_turn=True)

    def _compare(self, queued: QueuedPod, outcome: Outcome, *, out_of_turn: bool) -> None:
        """Decides the pod, and then counts it where the other scheduler put it."""
        queued.pod = outcome.old
        trace = self._explained(outcome.old)
        if outcome.node_name:
            agreed = outcome.node_name in trace.goes_to
        else:
            agreed = not trace.goes_to and outcome.message.startswith(trace.message)
        if not agreed:
            theirs = outcome.node_name or outcome.message
            difference = Difference(outcome.new.key, theirs, trace.goes_to, trace, out_of_turn)
            self.tally.differences.append(difference)
            self._report(difference)
        if outcome.node_name:
            self.tally.placed += 1
            self._queue.done(queued.pod.uid)
            self._feed.observe(outcome.old, outcome.new)
        else:
            self.tally.rejected += 1
            queued.pod = outcome.new
            self._queue.add_unschedulable(queued, frozenset(trace.unschedulable_plugins))

    def _explained(self, pod: Pod) -> Trace:
        """Whatever goes wrong with it, the pod gets the node that the other scheduler gave it."""
        try:
            return self._core.explain(pod)
        except Exception as problem:
            log.exception("the decision about %s cannot be explained", pod.key)
            words = f"{type(problem).__name__}: {problem}"
            return Trace(pod=pod.key, error=words, message=words)


def scheduled_message(pod: Pod) -> str:
    """Why the pod has no node, in the words of its condition."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message if condition.reason == "Unschedulable" else ""
    return ""
