"""The points of the binding cycle: PreBind with its preflight, Bind, PostBind."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from stowplan.framework.contract import SKIP, CycleState, PreBindPlugin, Preflight
from stowplan.framework.failure import failed, words_of
from stowplan.framework.profile import Profile
from stowplan.framework.status import Code, Status, checked_status, error
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
            flight = _checked_preflight(plugin.pre_bind_preflight(state, pod, node_name))
        except BaseException as problem:
            return PreBindPlan(_unready(plugin.name, words_of(problem)))
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


def _checked_preflight(answer: object) -> Preflight:
    if not isinstance(answer, Preflight):
        raise ValueError(f"{answer!r} is not a Preflight")
    return Preflight(checked_status(answer.status), bool(answer.parallel))


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
        status = checked_status(await plugin.pre_bind(state, pod, node_name))
    except BaseException as problem:
        status = error(_words_of(problem))
    if status is None or status.code is Code.SUCCESS:
        return None
    if status.rejected:
        return status.by(plugin.name)
    return _failed("PreBind", plugin.name, status.message)


async def run_bind(profile: Profile, state: CycleState, pod: Pod, node_name: str) -> Status | None:
    """The first Bind plugin that does not skip binds the pod."""
    for plugin in profile.binds:
        try:
            status = checked_status(await plugin.bind(state, pod, node_name))
        except BaseException as problem:
            return _failed("Bind", plugin.name, _words_of(problem))
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
        except BaseException as problem:
            _pass_on_a_stop(problem)
            failures.append(str(failed(plugin.name, "postBind", problem)))
    return failures


def _words_of(problem: BaseException) -> str:
    _pass_on_a_stop(problem)
    return words_of(problem)


def _pass_on_a_stop(problem: BaseException) -> None:
    """To be stopped, because the pod has to make way or the loop ends, is no failure of the plugin. To run
    into a task that was cancelled is."""
    if isinstance(problem, GeneratorExit):
        raise problem
    task = asyncio.current_task()
    if isinstance(problem, asyncio.CancelledError) and task is not None and task.cancelling():
        raise problem


def _unready(plugin: str, words: str) -> Status:
    return error(f'running PreBindPreFlight "{plugin}": {words}').by(plugin)


def _failed(point: str, plugin: str, words: str) -> Status:
    return error(f'running {point} plugin "{plugin}": {words}').by(plugin)
