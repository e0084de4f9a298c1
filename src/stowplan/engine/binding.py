"""The points of the binding cycle: PreBind with its preflight, Bind, PostBind."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from stowplan.framework.contract import SKIP, CycleState, PreBindPlugin
from stowplan.framework.profile import Profile
from stowplan.framework.status import Code, Status, error
from stowplan.objects import Pod

_UNSUPPORTED = (
    'PreBindPreFlight {} returned "{}", which is unsupported. '
    "It is supposed to return Success, Skip, or Error status"
)


class PreBindPlan(NamedTuple):
    """The PreBind plugins that have something to do, in groups that may work at the same time."""

    status: Status | None
    """A preflight that failed."""
    groups: tuple[tuple[PreBindPlugin, ...], ...] = ()


def plan_pre_bind(profile: Profile, state: CycleState, pod: Pod, node_name: str) -> PreBindPlan:
    """Asks each PreBind plugin whether it will do anything. Neighbours that allow it form a group; one that
    does not allow it breaks the group, even when it has nothing to do itself."""
    groups: list[list[PreBindPlugin]] = []
    open_group = False
    for plugin in profile.pre_binds:
        try:
            flight = plugin.pre_bind_preflight(state, pod, node_name)
        except Exception as problem:
            return PreBindPlan(_unready(plugin.name, str(problem)))
        code = Code.SUCCESS if flight.status is None else flight.status.code
        if flight.status is not None and code is Code.ERROR:
            return PreBindPlan(_unready(plugin.name, flight.status.message))
        if code not in (Code.SUCCESS, Code.SKIP):
            return PreBindPlan(error(_UNSUPPORTED.format(plugin.name, code.label)))
        skipped = code is Code.SKIP
        if not flight.parallel:
            open_group = False
        if not skipped:
            if flight.parallel and open_group:
                groups[-1].append(plugin)
            else:
                groups.append([plugin])
            open_group = flight.parallel
    return PreBindPlan(None, tuple(map(tuple, groups)))


async def run_pre_bind(plan: PreBindPlan, state: CycleState, pod: Pod, node_name: str) -> Status | None:
    """Group after group; the first failure ends it and stops the others of its group."""
    for group in plan.groups:
        if len(group) == 1:
            status = await _pre_bind(group[0], state, pod, node_name)
        else:
            status = await _all_of(group, state, pod, node_name)
        if status is not None:
            return status
    return None


async def _all_of(
    group: tuple[PreBindPlugin, ...], state: CycleState, pod: Pod, node_name: str
) -> Status | None:
    tasks = [asyncio.ensure_future(_pre_bind(plugin, state, pod, node_name)) for plugin in group]
    try:
        for finished in asyncio.as_completed(tasks):
            status = await finished
            if status is not None:
                return status
        return None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pre_bind(plugin: PreBindPlugin, state: CycleState, pod: Pod, node_name: str) -> Status | None:
    try:
        status = await plugin.pre_bind(state, pod, node_name)
    except Exception as problem:
        status = error(str(problem) or type(problem).__name__)
    if status is None or status.code is Code.SUCCESS:
        return None
    if status.rejected:
        return status.by(plugin.name)
    return _failed("PreBind", plugin.name, status.message)


async def run_bind(profile: Profile, state: CycleState, pod: Pod, node_name: str) -> Status | None:
    """The first Bind plugin that does not skip binds the pod."""
    for plugin in profile.binds:
        try:
            status = await plugin.bind(state, pod, node_name)
        except Exception as problem:
            return _failed("Bind", plugin.name, str(problem) or type(problem).__name__)
        if status is None or status.code is Code.SUCCESS:
            return None
        if status.code is not Code.SKIP:
            return status.by(plugin.name) if status.rejected else _failed("Bind", plugin.name, status.message)
    return SKIP


async def run_post_bind(profile: Profile, state: CycleState, pod: Pod, node_name: str) -> list[str]:
    """Tells all PostBind plugins; returns what failed, in words."""
    failures = []
    for plugin in profile.post_binds:
        try:
            await plugin.post_bind(state, pod, node_name)
        except Exception as problem:
            failures.append(f'running PostBind plugin "{plugin.name}": {type(problem).__name__}: {problem}')
    return failures


def _unready(plugin: str, words: str) -> Status:
    return error(f'running PreBindPreFlight "{plugin}": {words}').by(plugin)


def _failed(point: str, plugin: str, words: str) -> Status:
    return error(f'running {point} plugin "{plugin}": {words}').by(plugin)
