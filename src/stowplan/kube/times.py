"""Times as the API writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def micro_time(seconds: float) -> str:
    """With microseconds, as events and leases have it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")[:-6] + "Z"


def whole_time(seconds: float) -> str:
    """In whole seconds, as everything else has it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")[:-6] + "Z"
