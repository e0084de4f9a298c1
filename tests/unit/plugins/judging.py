"""Asks a plugin in every form that it has, and insists that the forms agree."""

from __future__ import annotations

import numpy as np

from stowplan.cluster import Cluster
from stowplan.framework import SKIP, CycleState, FilterPlugin, PreScorePlugin, ScorePlugin, Status
from stowplan.framework.contract import PreFilterPlugin
from stowplan.objects import Pod


def statuses(plugin: FilterPlugin, pod: Pod, cluster: Cluster) -> list[Status | None]:
    """What the filter says of every node."""
    state = CycleState()
    if isinstance(plugin, PreFilterPlugin):
        plugin.pre_filter(state, pod, cluster.nodes)
    verdict = plugin.filter(state, pod, cluster.nodes)
    found = [verdict.status_of(code) if code else None for code in verdict.codes.tolist()]
    assert [plugin.filter_node(state, pod, node) for node in cluster.nodes] == found
    every_other = cluster.nodes.where(np.arange(len(cluster.nodes)) % 2 == 1)
    some = plugin.filter(state, pod, every_other)
    assert [some.status_of(code) if code else None for code in some.codes.tolist()] == found[1::2]
    return found


def scores(plugin: ScorePlugin, pod: Pod, cluster: Cluster) -> list[int] | None:
    """The score of every node before normalising; None when the plugin skips the pod."""
    state = CycleState()
    if isinstance(plugin, PreScorePlugin) and plugin.pre_score(state, pod, cluster.nodes) == SKIP:
        return None
    given = plugin.score(state, pod, cluster.nodes)
    column = np.full(len(cluster.nodes), given) if isinstance(given, int) else given
    assert column.dtype == np.int64
    found: list[int] = column.tolist()
    assert [plugin.score_node(state, pod, node) for node in cluster.nodes] == found
    every_other = cluster.nodes.where(np.arange(len(cluster.nodes)) % 2 == 1)
    some = plugin.score(state, pod, every_other)
    assert (
        (found[1::2] == [some] * len(every_other)) if isinstance(some, int) else some.tolist() == found[1::2]
    )
    return found


def normalized(plugin: ScorePlugin, raw: list[int], cluster: Cluster) -> list[int]:
    """Raw scores as they count in the end."""
    column = np.array(raw, np.int64)
    result: list[int] = plugin.normalize(CycleState(), Pod(), column, cluster.nodes).tolist()
    return result
