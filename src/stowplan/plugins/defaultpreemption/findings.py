"""What came of a search for candidates: them, or why no node would do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from stowplan.framework.decision import fit_error
from stowplan.framework.status import Code, Status
from stowplan.plugins.defaultpreemption.victims import Candidate

NOT_HELPFUL = "Preemption is not helpful for scheduling"


@dataclass
class Findings:
    """The candidates, and for the other nodes that were tried why preemption would not help there."""

    candidates: list[Candidate] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    tried: int = 0
    errors: list[str] = field(default_factory=list)

    def add(self, found: Candidate | Status) -> None:
        if isinstance(found, Status):
            self.note(found, 1)
        else:
            self.tried += 1
            self.candidates.append(found)

    def note(self, status: Status, nodes: int) -> None:
        """So many nodes have this status."""
        self.tried += nodes
        for reason in status.reasons:
            self.reasons[reason] += nodes
        if status.code is Code.ERROR:
            self.errors.append(status.message)

    @property
    def error(self) -> str:
        """All that went wrong, once each."""
        messages = list(dict.fromkeys(self.errors))
        return messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"

    def message(self, total: int) -> str:
        """Why there is no candidate among so many nodes."""
        reasons = Counter(self.reasons)
        if self.tried < total:
            reasons[NOT_HELPFUL] += total - self.tried
        return fit_error(total, reasons)
