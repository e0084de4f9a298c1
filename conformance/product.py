"""The product as a case needs it: a cluster from objects, an explanation per pod, a pod put on a node."""

from __future__ import annotations

from stowplan.engine.scheduler import Scheduler

from conformance.cases import Case
from stowplan.cluster import Cluster
from stowplan.config import load
from stowplan.engine.trace import Trace
from stowplan.objects import Pod
from stowplan.objects.decode import decode_object


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
        self.scheduler = Scheduler(self.cluster, load(case.config))

    def explain(self, key: str) -> Trace:
        return self.scheduler.explain(self._pending[key])

    def place(self, key: str, node_name: str) -> None:
        pod = self._pending.pop(key)
        self.cluster.nominations.remove(pod.uid)
        self.cluster.put_pod(pod.placed_on(node_name))
