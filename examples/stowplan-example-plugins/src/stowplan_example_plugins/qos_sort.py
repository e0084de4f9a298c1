"""Among pods of equal priority: Guaranteed, then Burstable, then BestEffort; else first come first served."""

from __future__ import annotations

from stowplan.framework import QueuedPod, QueueSortPlugin
from stowplan.objects import PodSpec

GUARANTEED, BURSTABLE, BEST_EFFORT = range(3)


def qos_class(spec: PodSpec) -> int:
    """The quality of service that Kubernetes gives to a pod, by the cpu and memory of its containers."""
    resources = [container.resources for container in (*spec.containers, *spec.init_containers)]
    asked = [(r.requests.get(name), r.limits.get(name)) for r in resources for name in ("cpu", "memory")]
    if not any(request or limit for request, limit in asked):
        return BEST_EFFORT
    if all(limit and request in (None, limit) for request, limit in asked):
        return GUARANTEED
    return BURSTABLE


class QOSSort(QueueSortPlugin):
    """Enable it at `queueSort` in place of PrioritySort."""

    def sort_key(self, queued: QueuedPod) -> tuple[int, int, float]:
        spec = queued.pod.spec
        return -spec.priority, qos_class(spec), queued.timestamp
