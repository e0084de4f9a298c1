"""This project's core under a load."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass

import msgspec

from benchmarks.loads import Json, Load
from stowplan.cluster import Cluster
from stowplan.engine import Scheduler
from stowplan.objects import Pod, decode_object, decode_pod


@dataclass
class Run:
    """What came of deciding the pods of a load once."""

    pods: int = 0
    placed: int = 0
    failed: int = 0
    preempted: int = 0
    victims: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Pods per second."""
        return self.pods / self.seconds


def encoded(obj: Json) -> bytes:
    return msgspec.json.encode(obj)


def run(load: Load) -> Run:
    """Everything there is, then the pods one by one: decide, and assume. A pod that fits nowhere may
    preempt; then the victims go, the pod is nominated and decided once more."""
    cluster = Cluster()
    for obj in load.there():
        cluster.add(decode_object(encoded(obj)))
    scheduler = Scheduler(cluster)
    pods = [decode_pod(encoded(obj)) for obj in load.pods()]
    gc.collect()
    gc.freeze()  # as the scheduler does once it has loaded the cluster
    result = Run(pods=len(pods))
    started = time.perf_counter()
    for pod in pods:
        _schedule(scheduler, pod, result)
    result.seconds = time.perf_counter() - started
    gc.unfreeze()
    return result


def _schedule(scheduler: Scheduler, pod: Pod, result: Run) -> None:
    cluster = scheduler.cluster
    decision = scheduler.decide(pod)
    if decision.node_name is None:
        if not decision.nominated_node:
            result.failed += 1
            return
        for victim in decision.victims:
            cluster.remove_pod(victim.uid)
        result.preempted += 1
        result.victims += len(decision.victims)
        cluster.nominations.add(pod, decision.nominated_node)
        decision = scheduler.decide(pod, attempt=1)
        cluster.nominations.remove(pod.uid)
    if decision.node_name is None:
        raise AssertionError(f"{pod.key} does not fit where it preempted: {decision.message}")
    cluster.assume(pod, decision.node_name)
    result.placed += 1
