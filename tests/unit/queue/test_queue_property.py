"""Whatever happens in whatever order: no pod is lost, none is in two places, and waits are kept."""

from __future__ import annotations

from math import floor

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stowplan.framework.events import ClusterEvent
from stowplan.objects import Pod
from stowplan.queue import QueuedPod, SchedulingQueue
from tests.unit.queue.rig import CLASS_ADD, NODE_LABEL, Gate, Picky, Rig, Shapely, pod

NAMES = ("a", "b", "c", "d", "e")
PLUGINS = ("Picky", "Shapely", "Gate")
names = st.sampled_from(NAMES)


class QueueMachine(RuleBasedStateMachine):
    """The queue beside a plain account of which pods exist and which are being decided."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig(Picky, Shapely, Gate)
        self.gate = self.rig.plugin("Gate")
        self.pending: dict[str, Pod] = {}
        self.in_flight: dict[str, QueuedPod] = {}
        self.recreated = 0

    @property
    def queue(self) -> SchedulingQueue:
        return self.rig.queue

    # What the API server does

    @rule(name=names, priority=st.integers(0, 2))
    def create(self, name: str, priority: int) -> None:
        if name not in self.pending:
            self.recreated += 1
            self.pending[name] = pod(name, f"uid-{self.recreated}", priority)
            self.queue.add(self.pending[name])

    @rule(name=names, priority=st.integers(0, 2))
    def change(self, name: str, priority: int) -> None:
        if name in self.pending:
            old = self.pending[name]
            self.pending[name] = pod(name, old.uid, priority)
            self.queue.update(old, self.pending[name])

    @rule(name=names)
    def delete(self, name: str) -> None:
        if name in self.pending:
            self.queue.delete(self.pending.pop(name))

    @rule(name=names)
    def replace_unseen(self, name: str) -> None:
        """Another pod of the same name, and nobody saw the old one go."""
        if name in self.pending:
            self.recreated += 1
            self.pending[name] = pod(name, f"uid-{self.recreated}")
            self.queue.add(self.pending[name])

    @rule(event=st.sampled_from((NODE_LABEL, CLASS_ADD)))
    def something_happens(self, event: ClusterEvent) -> None:
        self.rig.move(event)

    @rule(lucky=st.frozensets(names))
    def hints_change(self, lucky: frozenset[str]) -> None:
        self.rig.plugin("Picky").helps = lambda pod, old, new: pod.name in lucky

    @rule(closed=st.frozensets(names))
    def gates_change(self, closed: frozenset[str]) -> None:
        self.gate.closed = set(closed)

    # What the scheduler does

    @rule()
    def pop(self) -> None:
        queued = self.queue.pop()
        if queued is not None:
            assert queued.pod.uid not in self.in_flight
            assert self.pending[queued.pod.name] is queued.pod, "the pod as it is now is handed out"
            self.in_flight[queued.pod.uid] = queued

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data(), plugins=st.frozensets(st.sampled_from(PLUGINS)), pending=st.booleans())
    def reject(self, data: st.DataObject, plugins: frozenset[str], pending: bool) -> None:
        queued = self.in_flight.pop(data.draw(st.sampled_from(sorted(self.in_flight))))
        now = self.pending.get(queued.pod.name)
        if now is None or now.uid != queued.pod.uid:
            self.queue.done(queued.pod.uid)
            return
        queued.pod = now
        self.queue.add_unschedulable(queued, plugins, plugins if pending else frozenset())
        if not plugins:
            assert self.rig.where(now) in ("backoff", "gated")

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        queued = self.in_flight.pop(data.draw(st.sampled_from(sorted(self.in_flight))))
        self.queue.done(queued.pod.uid)
        known = self.pending.get(queued.pod.name)
        if known is not None and known.uid == queued.pod.uid:
            self.queue.delete(self.pending.pop(queued.pod.name))

    @rule(name=names)
    def activate(self, name: str) -> None:
        if name in self.pending:
            self.queue.activate([self.pending[name]])
            assert self.rig.where(self.pending[name]) in ("active", "gated", "")

    @rule(seconds=st.sampled_from((0.1, 0.5, 1.0, 2.0, 7.0, 40.0, 400.0)))
    def time_passes(self, seconds: float) -> None:
        self.rig.pass_time(seconds)

    # What always holds

    @invariant()
    def every_pod_is_in_one_place(self) -> None:
        expected = {p.key for p in self.pending.values() if p.uid not in self.in_flight}
        listed = [queued.key for queued in self.queue.pods()]
        assert sorted(listed) == sorted(expected)
        assert sum(self.queue.counts().values()) == len(listed) == len(self.queue)
        assert self.queue.in_flight == len(self.in_flight)

    @invariant()
    def every_pod_is_held_as_it_is_now(self) -> None:
        for queued in self.queue.pods():
            assert queued.pod is self.pending[queued.pod.name]

    @invariant()
    def nobody_waits_longer_than_he_must(self) -> None:
        """After a tick, whoever backs off has not been waiting for more than ten seconds and the rest of
        the second in which that ends."""
        self.queue.tick()
        for queued in self.queue.pods():
            if self.rig.where(queued.pod) == "backoff":
                failures = queued.consecutive_errors or queued.unschedulable_count
                ends = floor(queued.timestamp + min(2 ** (failures - 1), 10))
                assert ends >= floor(self.rig.time)

    @invariant()
    def gated_pods_name_their_gate(self) -> None:
        for queued in self.queue.pods():
            where = self.rig.where(queued.pod)
            assert (where == "gated") == bool(queued.gating_plugin)
            if where in ("gated", "unschedulable"):
                assert queued.rejectors

    @invariant()
    def without_pods_in_flight_no_events_are_kept(self) -> None:
        if not self.in_flight:
            assert self.queue.recorded_events == 0

    def teardown(self) -> None:
        """However it went, opening all gates and waiting brings every pod back."""
        for queued in list(self.in_flight.values()):
            self.queue.done(queued.pod.uid)
            self.pending = {name: p for name, p in self.pending.items() if p.uid != queued.pod.uid}
        self.gate.closed = set()
        self.rig.pass_time(400)
        self.rig.pass_time(20)
        handed_out = set()
        while (last := self.queue.pop()) is not None:
            handed_out.add(last.pod.name)
        assert handed_out == set(self.pending)


QueueMachine.TestCase.settings = settings(deadline=None, max_examples=80, stateful_step_count=40)
TestQueue = QueueMachine.TestCase
