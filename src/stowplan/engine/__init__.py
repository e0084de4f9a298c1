"""One pod's way: decide, assume, reserve, permit, bind; and what happens when that fails.

`scheduler.py` is the way in, `decide.py` the hot path, `explain.py` the slow and complete account. This
room knows no socket and no clock: the write side and the time come from the host.
"""

from stowplan.engine.scheduler import Scheduler
from stowplan.engine.trace import Trace
from stowplan.framework.decision import Decision

__all__ = ["Decision", "Scheduler", "Trace"]
