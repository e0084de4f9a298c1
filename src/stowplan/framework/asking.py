"""Asking plugins about a pod before any node is looked at, and when none will do; whatever is wrong with an
answer is theirs."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, TypeAlias

from stowplan.cluster import Nodes
from stowplan.framework.contract import (
    ASK_ALWAYS,
    SKIP,
    CycleState,
    Narrow,
    Plugin,
    PostFilterPlugin,
    PostFilterResult,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
)
from stowplan.framework.decision import Rejections
from stowplan.framework.failure import failed
from stowplan.framework.status import REJECTIONS, Code, Status, checked_status
from stowplan.objects import Pod

NO_CONCERN: Final = object()
"""In place of a part of the shape: this plugin has nothing to do with such pods."""

_REJECTIONS_AND_SKIP = REJECTIONS | {Code.SKIP}

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
    except BaseException as problem:
        raise failed(plugin.name, "shape", problem) from problem


def ask_pre_filter(plugin: PreFilterPlugin, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterAnswer:
    """PreFilter's answer; any code but those of the contract is the plugin's failure."""
    try:
        answer: object = plugin.pre_filter(state, pod, nodes)
        if answer is None:
            return None
        if answer is SKIP:  # most often, and this is asked at every decision
            return SKIP
        if isinstance(answer, Narrow):
            if not isinstance(answer.names, (frozenset, set)):
                raise TypeError(f"Narrow takes a frozenset of node names, got {answer.names!r}")
            return Narrow(frozenset(answer.names))
        status = checked_status(answer, _REJECTIONS_AND_SKIP)
        return SKIP if status is not None and status.code is Code.SKIP else status
    except BaseException as problem:
        raise failed(plugin.name, "preFilter", problem) from problem


def ask_pre_score(plugin: PreScorePlugin, state: CycleState, pod: Pod, nodes: Nodes) -> bool:
    """Whether PreScore says to skip the plugin's Score."""
    try:
        answer: object = plugin.pre_score(state, pod, nodes)
        return answer is SKIP or checked_status(answer, (Code.SKIP,)) is not None
    except BaseException as problem:
        raise failed(plugin.name, "preScore", problem) from problem


def ask_post_filter(
    plugin: PostFilterPlugin, state: CycleState, pod: Pod, rejections: Rejections
) -> PostFilterResult:
    """PostFilter's result: room was made or could not be, which node is promised, and which pods must go."""
    try:
        result: object = plugin.post_filter(state, pod, rejections)
        if not isinstance(result, PostFilterResult):
            raise TypeError(f"{result!r} is not a PostFilterResult")
        checked_status(result.status, REJECTIONS)
        if not isinstance(result.nominated_node, str | None):
            raise TypeError(f"a node is nominated by its name, got {result.nominated_node!r}")
        victims: object = result.victims
        if not isinstance(victims, tuple) or not all(isinstance(one, Pod) for one in victims):
            raise TypeError(f"victims must be a tuple of pods, got {victims!r}")
    except BaseException as problem:
        raise failed(plugin.name, "postFilter", problem) from problem
    return result
