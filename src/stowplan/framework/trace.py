"""What plugins can tell beyond their answers, for the full account of a decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from stowplan.framework.contract import CycleState
from stowplan.framework.decision import Rejections
from stowplan.objects import Pod


@dataclass(frozen=True)
class Victims:
    """Who would have to go from a node, most important first, and how many disruption budgets that breaks."""

    pods: tuple[str, ...]
    pdb_violations: int = 0


@dataclass(frozen=True)
class PreemptionTrace:
    """Where making room would help. Every node is tried."""

    ineligible: str = ""
    candidates: dict[str, Victims] = field(default_factory=dict)
    chosen: tuple[str, ...] = ()
    """The best candidates; any of them is right."""
    message: str = ""


@runtime_checkable
class TracesPreemption(Protocol):
    """A PostFilter plugin that can say where making room would help, trying every node."""

    def trace_preemption(self, state: CycleState, pod: Pod, rejections: Rejections) -> PreemptionTrace: ...


@runtime_checkable
class TracesAllocations(Protocol):
    """A plugin that can say which devices each claim of the pod would be given on a node."""

    def trace_allocations(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> Mapping[str, tuple[str, ...]]: ...
