"""Remembered answers: what one plugin said of every node for one part of a pod's shape.

This is the hot path. After a pod is placed, one row of the node table has changed; bringing a memory up
to date then costs one call of the plugin's per-node form instead of a pass over all nodes.
"""

from __future__ import annotations

import numpy as np

from stowplan.cluster import Cluster, IntColumn, NodeRow, Nodes
from stowplan.cluster.columns import grown
from stowplan.framework.contract import (
    MAX_SCORE,
    CycleState,
    FilterPlugin,
    Plugin,
    Reads,
    ScorePlugin,
    overrides,
)
from stowplan.framework.failure import PluginError, failed
from stowplan.framework.status import REJECTIONS, Status, checked_score, checked_status
from stowplan.framework.verdict import Verdict
from stowplan.objects import Pod

_FEW = 6
"""Up to this many changed rows the per-node form is cheaper than a pass in columns."""


_NO_COLUMN: IntColumn = np.zeros(0, np.int64)


class RowMemory:
    """The common part: which rows are up to date, and how the others are refreshed."""

    def __init__(self, plugin: Plugin, cluster: Cluster, state: CycleState, pod: Pod) -> None:
        self.plugin = plugin
        self.reads_usage = Reads.USAGE in plugin.reads
        self._cluster = cluster
        self._state = state
        self._pod = pod
        self._column = _NO_COLUMN
        self._node_position = -1
        self._usage_position = -1
        self.generation = 0
        """Grows with every pass over all rows, after which codes may mean something else."""

    @property
    def column(self) -> IntColumn:
        return self._column[: self._cluster.table.size]

    def item(self, row: int) -> int:
        return self._column.item(row)

    def refresh(self) -> None:
        """Asks the plugin about the rows that changed since the last time. Where it fails, nothing is
        noted as seen, so the next attempt starts from the same place."""
        table = self._cluster.table
        node_position, usage_position = table.node_log.position, table.usage_log.position
        rows = table.node_log.since(self._node_position) if node_position != self._node_position else []
        if self.reads_usage and rows is not None and usage_position != self._usage_position:
            used = table.usage_log.since(self._usage_position)
            rows = None if used is None else rows + used
        if rows is None or len(rows) * 2 > table.size:
            self._refresh_all()
        elif rows:
            self._refresh_some(sorted({row for row in rows if row < table.size}))
        self._node_position, self._usage_position = node_position, usage_position

    def catch_up(self, changed: list[NodeRow], since: int, until: int) -> None:
        """The short way for a plan that knows already which rows have changed usage between two positions,
        and that no node did."""
        if self._usage_position != until:
            if self._usage_position != since:
                self.refresh()
                return
            for node in changed:
                self._ask_one(node)
            self._usage_position = until

    def _refresh_all(self) -> None:
        self.generation += 1
        self._ask(self._cluster.nodes)

    def _refresh_some(self, rows: list[int]) -> None:
        if len(self._column) < self._cluster.table.size:
            self._column = grown(self._column, self._cluster.table.capacity)
        if len(rows) <= _FEW:
            for row in rows:
                self._ask_one(NodeRow(self._cluster, row))
        else:
            self._ask(Nodes(self._cluster, np.array(rows, np.int64)))

    def _ask(self, nodes: Nodes) -> None:
        raise NotImplementedError

    def _ask_one(self, node: NodeRow) -> None:
        raise NotImplementedError


class FilterMemory(RowMemory):
    """Per row a code, 0 where the node passes. Codes of the columns form are the plugin's own; statuses
    that its per-node form gave are numbered downwards from -1."""

    plugin: FilterPlugin

    def __init__(self, plugin: FilterPlugin, cluster: Cluster, state: CycleState, pod: Pod) -> None:
        super().__init__(plugin, cluster, state, pod)
        self._verdict = Verdict.passes(0)
        self._numbers: dict[Status, int] = {}
        self._statuses: list[Status] = []

    def status_of(self, code: int) -> Status:
        return self._statuses[-code - 1] if code < 0 else self._verdict.status_of(code)

    def verdict(self) -> Verdict:
        """All rows, as of now: a copy, because the column and what its codes mean go on changing."""
        statuses, in_columns = self._statuses, self._verdict

        def status_of(code: int) -> Status:
            return statuses[-code - 1] if code < 0 else in_columns.status_of(code)

        return Verdict(self.column.copy(), status_of)

    def _ask(self, nodes: Nodes) -> None:
        verdict = ask_filter(self.plugin, self._state, self._pod, nodes)
        if nodes.everything:
            self._column = verdict.codes.copy()
            self._verdict = verdict
            self._numbers, self._statuses = {}, []
            return
        codes = verdict.codes.tolist()
        for row, code in zip(nodes.row_numbers.tolist(), codes, strict=True):
            self._note(row, verdict.status_of(code) if code else None)

    def _ask_one(self, node: NodeRow) -> None:
        self._note(node.row, ask_filter_node(self.plugin, self._state, self._pod, node))

    def _note(self, row: int, status: Status | None) -> None:
        if status is None:
            self._column[row] = 0
            return
        before = self._column.item(row)
        if before and self.status_of(before) == status:
            return
        number = self._numbers.get(status)
        if number is None:
            self._statuses.append(status)
            number = self._numbers[status] = -len(self._statuses)
        self._column[row] = number


class ScoreMemory(RowMemory):
    """Per row the plugin's score before normalising. `uniform` while all rows have the same, which makes
    normalising (if there is any) pointless: it cannot tell one node from another."""

    plugin: ScorePlugin

    def __init__(self, plugin: ScorePlugin, cluster: Cluster, state: CycleState, pod: Pod) -> None:
        super().__init__(plugin, cluster, state, pod)
        self.normalizes = normalizes(plugin)
        self.uniform = False

    def _ask(self, nodes: Nodes) -> None:
        scores = ask_score(self.plugin, self._state, self._pod, nodes)
        if not self.normalizes:
            check_range(self.plugin, scores)
        if nodes.everything:
            self._column = scores.copy()
            self.uniform = self.normalizes and nodes.size > 0 and bool((scores == scores.item(0)).all())
        else:
            self.uniform = self.uniform and bool((scores == self._column.item(0)).all())
            self._column[nodes.rows] = scores

    def _ask_one(self, node: NodeRow) -> None:
        plugin = self.plugin
        try:
            score = checked_score(plugin.score_node(self._state, self._pod, node))
        except BaseException as problem:
            raise failed(plugin.name, "score", problem) from problem
        if not self.normalizes and not 0 <= score <= MAX_SCORE:
            raise out_of_range(plugin, score)
        row = node.row
        if self.uniform and score != self._column.item(0):
            self.uniform = self._cluster.table.size == 1
        self._column[row] = score


def ask_filter(plugin: FilterPlugin, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
    """The plugin's verdict on these nodes; whatever is wrong with it is the plugin's failure."""
    try:
        verdict = plugin.filter(state, pod, nodes)
        if not isinstance(verdict, Verdict):
            raise TypeError(f"filter must return a Verdict, got {type(verdict).__name__}")
        codes = _checked_column(verdict.codes, nodes.size, "filter", "codes")
    except BaseException as problem:
        raise failed(plugin.name, "filter", problem) from problem
    return Verdict(codes, lambda code: _ask_status(plugin, verdict, code))


def _ask_status(plugin: FilterPlugin, verdict: Verdict, code: int) -> Status:
    """What a code means, which is often asked when the plugin is long done."""
    try:
        status = checked_status(verdict.status_of(code), REJECTIONS)
        if status is None:
            raise ValueError(f"code {code} rejects a node, and there is no Status for it")
    except BaseException as problem:
        raise failed(plugin.name, "filter", problem) from problem
    return status


def ask_filter_node(plugin: FilterPlugin, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
    """The plugin's status for one node, None when it passes."""
    try:
        return checked_status(plugin.filter_node(state, pod, node), REJECTIONS)
    except BaseException as problem:
        raise failed(plugin.name, "filter", problem) from problem


def ask_score(plugin: ScorePlugin, state: CycleState, pod: Pod, nodes: Nodes) -> IntColumn:
    """The plugin's scores for these nodes."""
    try:
        scores = plugin.score(state, pod, nodes)
        return as_column(scores, nodes.size, "score")
    except BaseException as problem:
        raise failed(plugin.name, "score", problem) from problem


def normalizes(plugin: ScorePlugin) -> bool:
    """Whether the scores must be seen beside those of the other nodes that can take the pod."""
    return overrides(plugin, ScorePlugin, "normalize")


def as_column(scores: object, size: int, method: str) -> IntColumn:
    """Scores as a column of the right length and type."""
    if isinstance(scores, (int, np.integer)):
        return np.full(size, checked_score(scores), np.int64)
    return _checked_column(scores, size, method, "scores")


def _checked_column(column: object, size: int, method: str, what: str) -> IntColumn:
    """Subclasses of arrays compute otherwise: the masked ones give numbers that are none."""
    if type(column) is not np.ndarray or column.shape != (size,) or column.dtype != np.int64:
        kind = type(column).__name__
        got = f"{column.dtype} of shape {column.shape}" if type(column) is np.ndarray else kind
        raise TypeError(f"{method} must return {size} int64 {what}, got {got}")
    return column


def check_range(plugin: ScorePlugin, scores: IntColumn) -> None:
    """After normalising, a score outside of 0 to 100 would drown the other plugins."""
    if not scores.size or int(scores.view(np.uint64).max()) <= MAX_SCORE:  # without a sign, negative is huge
        return
    lowest, highest = int(scores.min()), int(scores.max())
    raise out_of_range(plugin, lowest if lowest < 0 else highest)


def out_of_range(plugin: ScorePlugin, score: int) -> PluginError:
    return PluginError(
        plugin.name,
        "score",
        f'plugin "{plugin.name}" returns an invalid score {score}, it should in the range of '
        f"[0, {MAX_SCORE}] after normalizing",
    )
