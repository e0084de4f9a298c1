"""The product as a case needs it: a cluster from objects, an explanation per pod, a pod put on a node."""

from __future__ import annotations

import math
from collections.abc import Sequence

from conformance.cases import Case
from stowplan.cluster import Cluster
from stowplan.engine import Decision, Scheduler, Trace
from stowplan.framework.profile import Profile
from stowplan.objects import Pod, decode_object
from stowplan.plugins.defaultpreemption import DefaultPreemption


class World:
    """The cluster of one case and a scheduler that decides in it."""

    def __init__(self, case: Case) -> None:
        self.cluster = Cluster()
        self._pending: dict[str, Pod] = {}
        self._placed: dict[str, Pod] = {}
        for raw in case.objects:
            obj = decode_object(raw)
            if not isinstance(obj, Pod):
                self.cluster.add(obj)
            elif obj.node_name:
                self._placed[obj.key] = obj
            else:
                self._pending[obj.key] = obj
                if nominated := obj.status.nominated_node_name:
                    self.cluster.nominations.add(obj, nominated)
        # kube-scheduler was told of them in this order, which decides between pods that are equal otherwise.
        for key in sorted(self._placed):
            self.cluster.add(self._placed[key])
        self.scheduler = self._scheduler(case)

    def _scheduler(self, case: Case) -> Scheduler:
        config = bytes(case.config)
        if not config:
            return Scheduler(self.cluster)
        scheduler = Scheduler.from_file(self.cluster, config, f"config of {case.id}")
        for profile in scheduler.profiles.values():
            _let_preempt(profile)
        return scheduler

    def pending(self, key: str) -> Pod:
        return self._pending[key]

    def explain(self, key: str) -> Trace:
        """The complete account, in which every plugin is asked afresh."""
        return self.scheduler.explain(self._pending[key])

    def decide(self, key: str) -> Decision:
        """The quick way, with remembered answers and columns."""
        return self.scheduler.decide(self._pending[key])

    def nominated(self, key: str) -> str:
        """The node promised to a pod, which it gets if it still fits there."""
        return self._pending[key].status.nominated_node_name

    def standing(self, victims: Sequence[str]) -> list[tuple[int, float]]:
        """All that preemption looks at when it compares the victims of one node with those of another."""
        pods = [self._placed[key] for key in victims]
        starts = [math.inf if pod.status.start_time is None else pod.status.start_time for pod in pods]
        return sorted(zip((pod.spec.priority for pod in pods), starts, strict=True))

    def place(self, key: str, node_name: str) -> None:
        pod = self._pending.pop(key)
        self.cluster.nominations.remove(pod.uid)
        self._placed[key] = pod.placed_on(node_name)
        self.cluster.put_pod(self._placed[key])


def _let_preempt(profile: Profile) -> None:
    """kube-scheduler was asked what preemption would do in every profile, even where it is off."""
    if not any(isinstance(plugin, DefaultPreemption) for plugin in profile.post_filters):
        preemption = DefaultPreemption(DefaultPreemption.Args(), profile.handle)
        profile.post_filters = (*profile.post_filters, preemption)
