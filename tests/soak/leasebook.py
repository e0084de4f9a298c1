"""Who may bind when: the lease as each scheduler could know it, against the bindings that it sent.

Both come from the proxies: what a scheduler wrote into the lease and was told about, and when a binding came
in. So everything is in one clock, and no scheduler's own word is taken for anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_SLACK = 0.3
"""Seconds that a request may take from the scheduler into the log, on a busy machine."""
_NEVER = float("-inf")


@dataclass
class LeaseBook:
    """The lease's history, and what was done without it."""

    duration: float
    violations: list[str] = field(default_factory=list)
    bindings: int = 0
    takeovers: int = 0
    holder: str = ""
    """The scheduler whose writing of the lease was the last to be accepted."""
    _until: dict[str, float] = field(default_factory=dict)
    """How long each may act, by what it was told."""

    def renewed(self, replica: str, *, sent: float) -> None:
        """The server accepted a lease that names this replica; it was sent at that time."""
        if self.holder != replica:
            self.takeovers += 1
            if self.holder:
                self._until[self.holder] = min(self._until.get(self.holder, _NEVER), sent)
        self.holder = replica
        self._until[replica] = sent + self.duration

    def released(self, replica: str, *, sent: float) -> None:
        """The replica gave the lease back."""
        self._until[replica] = sent
        if self.holder == replica:
            self.holder = ""

    def stolen(self, at: float, grace: float) -> None:
        """Somebody overwrote the lease, against all rules. Its holder cannot know until it tries to renew."""
        if self.holder:
            self._until[self.holder] = min(self._until.get(self.holder, _NEVER), at + grace)
            self.holder = ""

    def started(self, replica: str) -> None:
        """A new process: nothing that the one before it had is its own."""
        self._until[replica] = _NEVER
        if self.holder == replica:
            self.holder = ""

    def bound(self, replica: str, pod: str, at: float) -> None:
        """A binding came in."""
        self.bindings += 1
        until = self._until.get(replica, _NEVER)
        if until == _NEVER:
            self.violations.append(f"{replica} bound {pod} without ever having had the lease")
        elif at > until + _SLACK:
            now = f", {self.holder} has it" if self.holder not in {"", replica} else ""
            self.violations.append(
                f"{replica} bound {pod} {at - until:.1f} s after it had the lease for the last time{now}"
            )
