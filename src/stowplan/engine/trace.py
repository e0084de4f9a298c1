"""The full account of one decision, as data. Made only when somebody asks for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from stowplan.framework.status import Status
from stowplan.framework.trace import PreemptionTrace


@dataclass(frozen=True)
class PluginScore:
    """One plugin's score of one node: as the plugin gave it, after normalising, and with its weight."""

    raw: int
    normalized: int
    weighted: int


@dataclass(frozen=True)
class Trace:
    """What every plugin said of every node."""

    pod: str
    error: str = ""
    held_back: Status | None = None
    """PreEnqueue's status, when the pod is not even tried; all else is what would be if it were."""
    prefilter: Status | None = None
    """PreFilter's status, when it did not succeed."""
    narrowed: tuple[str, ...] | None = None
    """The nodes that PreFilter narrowed the search to."""
    rejected: dict[str, Status] = field(default_factory=dict)
    """The first rejecting status of each node that was looked at and rejected."""
    feasible: tuple[str, ...] = ()
    scores: dict[str, dict[str, PluginScore]] = field(default_factory=dict)
    """Per feasible node and per plugin that did not skip."""
    totals: dict[str, int] = field(default_factory=dict)
    best: tuple[str, ...] = ()
    """The nodes with the highest total."""
    promised: str = ""
    """The node that the pod is nominated to, if it can take the pod: it goes there, whatever the scores."""
    search_ends_after: int = 0
    """How many nodes that can take the pod end a search, where `percentageOfNodesToScore` makes that fewer
    than there are: a decision then takes the best of those that it finds first."""
    message: str = ""
    """The text of the pod's condition, before anything PostFilter adds."""
    unschedulable_plugins: tuple[str, ...] = ()
    preemption: PreemptionTrace | None = None
    allocations: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    """Per feasible node: claim to `request driver/pool/device` of each device that it would be given."""

    @property
    def goes_to(self) -> tuple[str, ...]:
        """Where the pod may go, any of them, when all nodes are looked at."""
        return (self.promised,) if self.promised else self.best


def as_data(trace: Trace) -> dict[str, Any]:
    """The account as plain data for JSON, with codes called as upstream calls them."""
    data: dict[str, Any] = msgspec.to_builtins(trace)
    data["held_back"] = _status_as_data(trace.held_back)
    data["prefilter"] = _status_as_data(trace.prefilter)
    data["rejected"] = {node: _status_as_data(status) for node, status in trace.rejected.items()}
    return data


def _status_as_data(status: Status | None) -> dict[str, Any] | None:
    if status is None:
        return None
    return {"plugin": status.plugin, "code": status.code.label, "reasons": list(status.reasons)}
