"""What can be observed of the engine at work. The metrics are one observer; this one looks away."""

from __future__ import annotations


class Observer:
    """Told as things happen; must be quick and must not fail. Times are seconds."""

    def attempted(self, profile: str, result: str, seconds: float) -> None:
        """A scheduling cycle ended: scheduled, unschedulable or error."""

    def decided(self, seconds: float) -> None:
        """A decision was made, one way or the other."""

    def bound(
        self, profile: str, attempts: int, since_first_seen: float, *, after_flush: bool = False
    ) -> None:
        """A pod got its node; `after_flush` when it was tried only because it had been left alone for so
        long, which tells of a hint that is missing."""

    def point(self, profile: str, point: str, status: str, seconds: float) -> None:
        """All plugins of an extension point were run."""

    def permit_waited(self, result: str, seconds: float) -> None:
        """A pod was held back by Permit, and is not any more."""

    def preempted(self, victims: int) -> None:
        """A preemption was decided on."""

    def preemption_carried_out(self, result: str, seconds: float) -> None:
        """The victims were removed, or not."""
