"""Which pod is next: waiting pods, those that back off, those that nothing can be done for yet.

`queue.py` is the way in; `heap.py` keeps pods in order, `backoff.py` says how long a failed pod waits,
`hints.py` which events may help which rejected pod, `inflight.py` what happened while a pod was being
decided, `asking.py` asks the plugins. This room is synchronous and is given its clock; it must not know who
decides pods, nor any API server.
"""

from stowplan.queue.queue import SchedulingQueue
from stowplan.queue.queued import QueuedPod

__all__ = ["QueuedPod", "SchedulingQueue"]
