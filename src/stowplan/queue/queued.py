"""A pod as the queue holds it, with what it went through so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from stowplan.objects import Pod

NOBODY: frozenset[str] = frozenset()


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pending pod. The same object for as long as the pod waits, through all attempts."""

    pod: Pod
    timestamp: float
    """When it entered the queue, or came back to it after an attempt."""
    attempts: int = 0
    initial_attempt: float = 0.0
    """When it first became ready to be decided; 0 before that."""
    unschedulable_plugins: frozenset[str] = NOBODY
    """The plugins that rejected it the last time, or that keep it out of the queue."""
    pending_plugins: frozenset[str] = NOBODY
    """Of these, one event is enough to try again at once."""
    unschedulable_count: int = 0
    consecutive_errors: int = 0
    gating_plugin: str = ""
    """The PreEnqueue plugin that keeps it out of the queue."""
    flushed: float = 0.0
    """When it was last tried again only because it had been left alone for so long."""
    after_flush: bool = False
    """Whether that is why it is tried now."""
    key: str = field(init=False)
    """`namespace/name`, which never changes."""

    def __post_init__(self) -> None:
        self.key = self.pod.key

    @property
    def gated(self) -> bool:
        return bool(self.gating_plugin)

    @property
    def rejectors(self) -> frozenset[str]:
        """All plugins whose events may bring it back."""
        pending = self.pending_plugins
        return self.unschedulable_plugins | pending if pending else self.unschedulable_plugins
