"""Among pods of equal priority: Guaranteed, then Burstable, then BestEffort; else first come first served."""

from __future__ import annotations

from stowplan.framework import QueuedPod, QueueSortPlugin
from stowplan.objects import PodSpec, resource_amounts

GUARANTEED, BURSTABLE, BEST_EFFORT = range(3)


def qos_class(spec: PodSpec) -> int:
    """The quality of service that Kubernetes gives to a pod, by the cpu and memory it asks for."""
    of_containers = [container.resources for container in (*spec.containers, *spec.init_containers)]
    asked = []
    for resources in [spec.resources] if spec.resources else of_containers:
        requests, limits = resource_amounts(resources.requests), resource_amounts(resources.limits)
        asked += [(requests.get(name), limits.get(name)) for name in ("cpu", "memory")]
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
