"""The product as a case needs it: a cluster from objects, an explanation per pod, a pod put on a node."""

from __future__ import annotations

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
        for raw in case.objects:
            obj = decode_object(raw)
            if isinstance(obj, Pod) and not obj.node_name:
                self._pending[obj.key] = obj
                if nominated := obj.status.nominated_node_name:
                    self.cluster.nominations.add(obj, nominated)
            else:
                self.cluster.add(obj)
        self.scheduler = self._scheduler(case)

    def _scheduler(self, case: Case) -> Scheduler:
        config = bytes(case.config)
        if not config:
            return Scheduler(self.cluster)
        scheduler = Scheduler.from_file(self.cluster, config, f"config of {case.id}")
        for profile in scheduler.profiles.values():
            _let_preempt(profile)
        return scheduler

    def explain(self, key: str) -> Trace:
        """The complete account, in which every plugin is asked afresh."""
        return self.scheduler.explain(self._pending[key])

    def decide(self, key: str) -> Decision:
        """The quick way, with remembered answers and columns."""
        return self.scheduler.decide(self._pending[key])

    def nominated(self, key: str) -> str:
        """The node promised to a pod, which it gets if it still fits there."""
        return self._pending[key].status.nominated_node_name

    def place(self, key: str, node_name: str) -> None:
        pod = self._pending.pop(key)
        self.cluster.nominations.remove(pod.uid)
        self.cluster.put_pod(pod.placed_on(node_name))


def _let_preempt(profile: Profile) -> None:
    """kube-scheduler was asked what preemption would do in every profile, even where it is off."""
    if not any(isinstance(plugin, DefaultPreemption) for plugin in profile.post_filters):
        preemption = DefaultPreemption(DefaultPreemption.Args(), profile.handle)
        profile.post_filters = (*profile.post_filters, preemption)
