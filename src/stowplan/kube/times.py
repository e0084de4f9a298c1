"""Times as the API writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def micro_time(seconds: float) -> str:
    """With microseconds, as events and leases have it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def whole_time(seconds: float) -> str:
    """In whole seconds, as everything else has it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
