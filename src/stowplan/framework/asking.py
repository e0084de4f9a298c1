"""Asking plugins about a pod before any node is looked at; whatever is wrong with an answer is theirs."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, TypeAlias

from stowplan.cluster import Nodes
from stowplan.framework.contract import (
    ASK_ALWAYS,
    CycleState,
    Narrow,
    Plugin,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
)
from stowplan.framework.failure import PluginError
from stowplan.framework.status import Code, Status
from stowplan.objects import Pod

NO_CONCERN: Final = object()
"""In place of a part of the shape: this plugin has nothing to do with such pods."""

PreFilterAnswer: TypeAlias = Status | Narrow | None


def ask_shape(plugin: Plugin, pod: Pod) -> Hashable:
    """What tells pods of one plan from others, as far as this plugin goes."""
    try:
        if not plugin.concerns(pod):
            return NO_CONCERN
        if Reads.CLUSTER in plugin.reads:
            return ASK_ALWAYS
        part = plugin.shape(pod)
        hash(part)
        return part
    except Exception as problem:
        raise PluginError(plugin.name, "shape", problem) from problem


def ask_pre_filter(plugin: PreFilterPlugin, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterAnswer:
    """PreFilter's answer; any code but those of the contract is the plugin's failure."""
    try:
        answer: object = plugin.pre_filter(state, pod, nodes)
        if answer is None or isinstance(answer, Narrow):
            return answer
        if isinstance(answer, Status) and (answer.rejected or answer.code is Code.SKIP):
            return answer
        raise ValueError(answer.message if isinstance(answer, Status) else f"{answer!r} is not an answer")
    except Exception as problem:
        raise PluginError(plugin.name, "preFilter", problem) from problem


def ask_pre_score(plugin: PreScorePlugin, state: CycleState, pod: Pod, nodes: Nodes) -> bool:
    """Whether PreScore says to skip the plugin's Score."""
    try:
        answer: object = plugin.pre_score(state, pod, nodes)
        if answer is None or (isinstance(answer, Status) and answer.code is Code.SKIP):
            return answer is not None
        raise ValueError(answer.message if isinstance(answer, Status) else f"{answer!r} is not an answer")
    except Exception as problem:
        raise PluginError(plugin.name, "preScore", problem) from problem
