"""Whatever happens in whatever order: no pod is lost, none is in two places, and waits are kept."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stowplan.cluster import NodeRow
from stowplan.framework import CycleState, FilterPlugin, Status
from stowplan.framework.events import FORCE_ACTIVATE, Action, ClusterEvent, EventHint, Resource
from stowplan.framework.profile import DEFAULT_SCHEDULER
from stowplan.objects import Pod
from stowplan.queue import QueuedPod, SchedulingQueue
from stowplan.testing.builders import make_pod
from tests.unit.queue.rig import CLASS_ADD, NODE_LABEL, Gate, Picky, Rig, Shapely

NAMES = ("a", "b", "c")
PLUGINS = ("Picky", "Shapely", "Gate", "Vain")
SCHEDULERS = (DEFAULT_SCHEDULER, "another")
names = st.sampled_from(NAMES)
priorities = st.integers(0, 2)
nodes = st.sampled_from(["", "", "n1", "n2"])


class Vain(FilterPlugin):
    """Waits for other labels of the pod itself."""

    def filter_node(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        return None

    def events(self) -> Sequence[EventHint]:
        return (EventHint(Resource.POD, Action.UPDATE_POD_LABEL),)


def pod(name: str, uid: str, priority: int = 0, label: int = 0, node: str = "") -> Pod:
    scheduler = SCHEDULERS[NAMES.index(name) % 2]
    builder = make_pod(name).labels(label=str(label)).spec(priority=priority, schedulerName=scheduler)
    builder.manifest["metadata"]["uid"] = uid
    return builder.status(nominatedNodeName=node).build()


class QueueMachine(RuleBasedStateMachine):
    """The queue beside a plain account of which pods exist and which are being decided."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig(Picky, Shapely, Gate, Vain, names=SCHEDULERS)
        self.nominations = self.rig.cluster.nominations
        self.pending: dict[str, Pod] = {}
        self.helped_meanwhile: dict[str, set[str]] = {}
        """By uid of a pod in flight, the plugins that would let it try again for what happened since."""
        self.in_flight: dict[str, QueuedPod] = {}
        self.recreated = 0

    @property
    def queue(self) -> SchedulingQueue:
        return self.rig.queue

    # What the API server does

    @rule(name=names, priority=priorities, node=nodes)
    def create(self, name: str, priority: int, node: str) -> None:
        if name not in self.pending:
            self.recreated += 1
            self.pending[name] = pod(name, f"uid-{self.recreated}", priority, node=node)
            self.queue.add(self.pending[name])

    @rule(name=names, priority=priorities, label=st.integers(0, 2), node=nodes)
    def change(self, name: str, priority: int, label: int, node: str) -> None:
        if name in self.pending:
            old = self.pending[name]
            new = self.pending[name] = pod(name, old.uid, priority, label, node)
            self.queue.update(old, new)
            if new.uid in self.in_flight:
                if new.labels != old.labels:
                    self.helped_meanwhile[new.uid].add("Vain")
                return
            if node or old.status.nominated_node_name:
                assert (self.nominations.node_of(new.uid) or "") == node
            if new.labels != old.labels and self.rig.where(new) == "unschedulable":
                queued = self.queue.get(new.key)
                assert queued is not None and "Vain" not in queued.rejectors

    @rule(name=names)
    def list_again(self, name: str) -> None:
        """The API server shows what is known already, as after a connection was lost."""
        if name in self.pending:
            self.queue.add(self.pending[name])

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
        self._has_happened(event)
        for queued in self.queue.pods():
            if event is NODE_LABEL and self.rig.where(queued.pod) == "unschedulable":
                assert "Shapely" not in queued.rejectors, "its hint says yes to all"

    @rule(name=names, priority=priorities)
    def something_happens_that_helps_only_some(self, name: str, priority: int) -> None:
        spared = self.pending.get(name)
        before = {queued.key: self.rig.where(queued.pod) for queued in self.queue.pods()}
        self.queue.move(NODE_LABEL, None, None, spared, up_to_priority=priority)
        self._has_happened(NODE_LABEL)
        for queued in self.queue.pods():
            if queued.pod is spared or queued.pod.spec.priority > priority:
                assert self.rig.where(queued.pod) == before[queued.key]
            elif self.rig.where(queued.pod) == "unschedulable":
                assert "Shapely" not in queued.rejectors

    @rule(name=names)
    def anything_may_have_happened(self, name: str) -> None:
        """An event for all, or for one pod only."""
        about = self.pending.get(name)
        before = {queued.key: self.rig.where(queued.pod) for queued in self.queue.pods()}
        self.queue.move(FORCE_ACTIVATE, None, about)
        for queued in self.queue.pods():
            if about is not None and queued.pod.uid != about.uid:
                assert self.rig.where(queued.pod) == before[queued.key]
            else:
                assert self.rig.where(queued.pod) != "unschedulable"

    def _has_happened(self, event: ClusterEvent) -> None:
        for helped in self.helped_meanwhile.values():
            helped.add("Shapely" if event is NODE_LABEL else "Gate")

    @rule(lucky=st.frozensets(names))
    def hints_change(self, lucky: frozenset[str]) -> None:
        for plugin in self._everywhere("Picky"):
            plugin.helps = lambda pod, old, new: pod.name in lucky

    @rule(closed=st.frozensets(names))
    def gates_change(self, closed: frozenset[str]) -> None:
        for plugin in self._everywhere("Gate"):
            plugin.closed = set(closed)

    def _everywhere(self, name: str) -> list[Any]:
        return [profile.plugins[name] for profile in self.rig.profiles.values()]

    # What the scheduler does

    @rule()
    def pop(self) -> None:
        ready = [one.pod for one in self.queue.pods() if self.rig.where(one.pod) == "active"]
        queued = self.queue.pop()
        if queued is not None:
            assert all(queued.pod.spec.priority >= other.spec.priority for other in ready)
            assert queued.pod.uid not in self.in_flight
            assert self.pending[queued.pod.name] is queued.pod, "the pod as it is now is handed out"
            self.in_flight[queued.pod.uid] = queued
            self.helped_meanwhile[queued.pod.uid] = set()

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data(), plugins=st.frozensets(st.sampled_from(PLUGINS)), pending=st.booleans(), node=nodes)
    def reject(self, data: st.DataObject, plugins: frozenset[str], pending: bool, node: str) -> None:
        queued, helped = self._comes_back(data)
        now = self.pending.get(queued.pod.name)
        if now is None or now.uid != queued.pod.uid:
            self.nominations.remove(queued.pod.uid)
            self.queue.done(queued.pod.uid)
            return
        queued.pod = now
        self.queue.add_unschedulable(queued, plugins, plugins if pending else frozenset())
        if node:
            self.nominations.add(now, node)
        if not plugins:
            assert self.rig.where(now) in ("backoff", "gated")
        if helped & plugins:
            assert self.rig.where(now) != "unschedulable", "what happened meanwhile counts"

    def _comes_back(self, data: st.DataObject) -> tuple[QueuedPod, set[str]]:
        uid = data.draw(st.sampled_from(sorted(self.in_flight)))
        return self.in_flight.pop(uid), self.helped_meanwhile.pop(uid)

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        queued, _ = self._comes_back(data)
        self.nominations.remove(queued.pod.uid)
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
    def the_next_tick_is_ahead(self) -> None:
        assert 0 < self.queue.next_tick() <= 30

    @invariant()
    def only_pods_that_are_there_are_promised_a_node_and_each_one_only(self) -> None:
        promised = [(p.uid, node) for node in self.nominations.nodes() for p in self.nominations.on(node)]
        assert all(self.nominations.node_of(uid) == node for uid, node in promised)
        assert len(dict(promised)) == len(promised) == len(self.nominations)
        assert dict(promised).keys() <= {p.uid for p in self.pending.values()} | self.in_flight.keys()

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
        self.gates_change(frozenset())
        self.rig.pass_time(400)
        self.rig.pass_time(20)
        handed_out = set()
        while (last := self.queue.pop()) is not None:
            handed_out.add(last.pod.name)
        assert handed_out == set(self.pending)


QueueMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=50)
TestQueue = QueueMachine.TestCase
