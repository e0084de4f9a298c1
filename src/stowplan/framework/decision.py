"""What came of looking at the nodes: why none will do, or which one was chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import msgspec
import numpy as np

from stowplan.cluster import Cluster, IntColumn, Mask
from stowplan.cluster.columns import read_only
from stowplan.framework.contract import CycleState
from stowplan.framework.status import Code, Status
from stowplan.framework.verdict import Verdict
from stowplan.objects import Pod

NO_NODES = "no nodes available to schedule pods"


@dataclass(frozen=True)
class Rejections:
    """Why every node was rejected, as columns; words are made when somebody asks."""

    cluster: Cluster
    absent: Status | None = None
    """The status of nodes that were not looked at, because PreFilter rejected the pod or narrowed."""
    prefilter_message: str = ""
    rejected_by: IntColumn = field(default_factory=lambda: np.zeros(0, np.int64))
    """Per row: 0 for a node that was not looked at, else 1 + the number of the first rejecting plugin."""
    verdicts: Sequence[tuple[str, Verdict]] = ()
    """Plugins in the order of their numbers, with their verdict on all rows. Those that count pods nominated
    to rows come last, once more."""
    narrowing: frozenset[str] = frozenset()
    """The plugins that narrowed the search."""

    def status_of_row(self, row: int) -> Status | None:
        """The status of a row, None when it passed (or was not looked at and nothing is known)."""
        number = self.rejected_by.item(row) if row < len(self.rejected_by) else 0
        if number == 0:
            return self.absent
        name, verdict = self.verdicts[number - 1]
        return verdict.status_of(verdict.codes.item(row)).by(name)

    def status_of(self, node_name: str) -> Status | None:
        row = self.cluster.row_of(node_name)
        return self.absent if row is None else self.status_of_row(row)

    def rows_with(self, code: Code) -> IntColumn:
        """The rows whose status has this code, in order: with UNSCHEDULABLE, where preemption may help."""
        found = self._rows_by_code.get(code)
        if found is None:
            found = self._rows_by_code[code] = self._find_rows(code)
        return found

    @cached_property
    def _rows_by_code(self) -> dict[Code, IntColumn]:
        return {}

    def _find_rows(self, code: Code) -> IntColumn:
        size = self.cluster.table.size
        chosen: Mask = np.full(size, self.absent is not None and self.absent.code == code)
        for (_, status), rows in self._by_status():
            chosen[rows] = status.code == code
        return read_only(np.flatnonzero(chosen))

    def _by_status(self) -> list[tuple[tuple[str, Status], IntColumn]]:
        """The looked-at rows, grouped by plugin and status."""
        groups = []
        for number, (name, verdict) in enumerate(self.verdicts, 1):
            rows = np.flatnonzero(self.rejected_by == number)
            if not rows.size:
                continue
            codes = verdict.codes[rows]
            groups += [
                ((name, verdict.status_of(code)), rows[codes == code]) for code in np.unique(codes).tolist()
            ]
        return groups

    @cached_property
    def plugins(self) -> frozenset[str]:
        """The plugins whose events may make the pod schedulable."""
        names = {name for (name, _), _ in self._by_status()} | self.narrowing
        if self.absent is not None and self.absent.plugin:
            names.add(self.absent.plugin)
        return frozenset(names)

    @cached_property
    def pending_plugins(self) -> frozenset[str]:
        """The plugins that said Pending: their events bring the pod back at once."""
        names = {name for (name, status), _ in self._by_status() if status.code is Code.PENDING}
        if self.absent is not None and self.absent.code is Code.PENDING:
            names.add(self.absent.plugin)
        return frozenset(names)

    @cached_property
    def message(self) -> str:
        """`0/N nodes are available: …`, upstream's text, before anything PostFilter adds."""
        total = self.cluster.table.size
        if total == 0:
            return NO_NODES
        if self.prefilter_message:
            return f"0/{total} nodes are available: {self.prefilter_message}."
        counts: Counter[str] = Counter()
        looked_at = 0
        for (_, status), rows in self._by_status():
            looked_at += len(rows)
            for reason in status.reasons:
                counts[reason] += len(rows)
        if self.absent is not None and looked_at < total:
            for reason in self.absent.reasons:
                counts[reason] += total - looked_at
        return fit_error(total, counts)


def fit_error(total: int, counts: Mapping[str, int]) -> str:
    """Upstream's sentence for a number of nodes and how often each reason was given."""
    text = f"0/{total} nodes are available:"
    parts = sorted(f"{count} {reason}" for reason, count in counts.items())
    return f"{text} {', '.join(parts)}." if parts else text


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one pod's scheduling cycle."""

    pod: Pod
    node_name: str | None = None
    """The node chosen, None when no node will do."""
    state: CycleState
    """What the plugins noted down, for the points that follow."""
    status: Status | None = None
    """None when a node was chosen, else why not."""
    rejections: Rejections | None = None
    nominated_node: str | None = None
    """What PostFilter promised: a node, "" to withdraw an earlier promise, None to leave it."""
    victims: tuple[Pod, ...] = ()
    """The pods that must go from the nominated node first."""
    feasible: int = 0
    """How many nodes could take the pod."""
    looked_at: int = 0
    message: str = ""
    """The text of the pod's condition and event when no node will do."""
