"""How long a pod waits after a failed attempt: twice as long after each, up to a limit."""

from __future__ import annotations

from math import floor, inf

from stowplan.queue.queued import QueuedPod

_ENOUGH_DOUBLINGS = 62


class Backoff:
    """Times are cut to whole seconds, so that pods which failed together come back together and in order."""

    def __init__(self, initial: float, longest: float) -> None:
        self._initial = initial
        self._longest = longest

    def ends(self, queued: QueuedPod) -> float:
        """When the pod may be tried again; long ago when it need not wait."""
        failures = queued.consecutive_errors or queued.unschedulable_count
        if not failures or not self._longest:
            return -inf
        doublings = min(failures - 1, _ENOUGH_DOUBLINGS)
        return float(floor(queued.timestamp + min(self._initial * 2**doublings, self._longest)))

    def waiting(self, queued: QueuedPod, now: float) -> bool:
        """Whether the pod must still wait; within the second in which its time ends, it must."""
        return self.ends(queued) >= floor(now)
