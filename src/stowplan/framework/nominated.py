"""Nodes that pods are nominated to: they must take another pod also if those had come already.

Where nothing but room can change by that, all such nodes are judged at once; otherwise each in a trial.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import NamedTuple, Protocol, TypeGuard

import numpy as np

from stowplan.cluster import IntColumn, NodeRow, Nodes
from stowplan.framework.contract import CycleState, FilterPlugin, Reads
from stowplan.framework.cycle import run_with_nominated
from stowplan.framework.memory import ask_filter
from stowplan.framework.profile import Profile
from stowplan.framework.status import Status
from stowplan.framework.verdict import Verdict
from stowplan.objects import Pod


class AsksForRoom(Protocol):
    """A filter that rejects a node if and only if some amounts are not free there."""

    def room_needed(self, state: CycleState, pod: Pod) -> dict[str, int] | None:
        """Those amounts by resource; None when there is more to it this time."""


class OnlyRoom(NamedTuple):
    """The one filter that minds which pods are on a node, and all it minds is room."""

    plugin: FilterPlugin
    number: int
    """Among the profile's filters, from 1."""
    amounts: dict[str, int]
    later: tuple[FilterPlugin, ...]
    """The filters behind it, which read the node alone."""


def _asks_for_room(plugin: object) -> TypeGuard[AsksForRoom]:
    return hasattr(plugin, "room_needed")  # much quicker than a check of the protocol


def only_room(profile: Profile, state: CycleState, pod: Pod) -> OnlyRoom | None:
    """That filter, when pods that come or go can change nothing but room; None when another filter minds."""
    found: tuple[FilterPlugin, int, dict[str, int]] | None = None
    later: list[FilterPlugin] = []
    for number, plugin in enumerate(profile.filters, 1):
        if plugin.name in state.skipped_filters:
            continue
        if plugin.reads == Reads.NODE:
            if found is not None:
                later.append(plugin)
            continue
        amounts = plugin.room_needed(state, pod) if _asks_for_room(plugin) else None
        if amounts is None or found is not None:
            return None
        found = plugin, number, amounts
    return None if found is None else OnlyRoom(*found, tuple(later))


def rejected_with_nominated(
    profile: Profile,
    state: CycleState,
    pod: Pod,
    rejected_by: IntColumn,
    among: Container[str] | None = None,
) -> list[tuple[str, Verdict]]:
    """What filters say of the rows that would not take the pod once the pods nominated to them have come:
    verdicts on all rows, no row in two of them. `rejected_by` has for every row the number of the filter that
    rejects it as it is."""
    cluster = profile.host.cluster
    if not len(cluster.nominations):
        return []
    only = None if cluster.in_trial or among is not None else only_room(profile, state, pod)
    if only is None:
        return _by_plugin(_one_by_one(profile, state, pod, among), cluster.table.size)
    rows, usage = cluster.promised.counting_against(pod)
    # What a filter before it says of a node stays the first that is said.
    asked = (rejected_by[rows] == 0) | (rejected_by[rows] >= only.number)
    rows, usage = rows[asked], usage[:, asked]
    if not rows.size:
        return []
    with cluster.table.used_more(np.arange(len(usage)), rows, usage):
        verdict = ask_filter(only.plugin, state, pod, Nodes(cluster, rows))
    if not verdict.codes.any():
        return []
    return [(only.plugin.name, verdict.spread_out(rows, cluster.table.size))]


def _by_plugin(rejected: Mapping[int, Status], size: int) -> list[tuple[str, Verdict]]:
    found = []
    for name in dict.fromkeys(status.plugin for status in rejected.values()):
        own = {row: status for row, status in sorted(rejected.items()) if status.plugin == name}
        verdict = Verdict.of([*own.values()])
        found.append((name, verdict.spread_out(np.array([*own], np.int64), size)))
    return found


def _one_by_one(
    profile: Profile, state: CycleState, pod: Pod, among: Container[str] | None
) -> dict[int, Status]:
    cluster = profile.host.cluster
    nominations = cluster.nominations
    rejected: dict[int, Status] = {}
    for name in list(nominations.nodes()):
        row = cluster.row_of(name)
        if row is None or (among is not None and name not in among):
            continue
        if nominations.counting_against(pod, name):
            status = run_with_nominated(profile, state, pod, NodeRow(cluster, row))
            if status is not None:
                rejected[row] = status
    return rejected
