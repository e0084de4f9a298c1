"""Reserve and Permit: the last points of the scheduling cycle, and how they are taken back."""

from __future__ import annotations

from dataclasses import dataclass, field

from stowplan.framework.contract import CycleState, Wait
from stowplan.framework.failure import failed, words_of
from stowplan.framework.profile import Profile
from stowplan.framework.status import Code, Status, checked_status, error
from stowplan.objects import Pod


def run_reserve(profile: Profile, state: CycleState, pod: Pod, node_name: str) -> Status | None:
    """All Reserve plugins in order; the first that fails ends it; the caller then takes everything back."""
    for plugin in profile.reserves:
        try:
            answer = checked_status(plugin.reserve(state, pod, node_name))
        except BaseException as problem:
            answer = error(words_of(problem))
        status = _failure("Reserve", plugin.name, answer)
        if status is not None:
            return status
    return None


def run_unreserve(profile: Profile, state: CycleState, pod: Pod, node_name: str) -> list[str]:
    """All Reserve plugins in reverse order, whatever fails; returns what did, in words."""
    failures = []
    for plugin in reversed(profile.reserves):
        try:
            plugin.unreserve(state, pod, node_name)
        except BaseException as problem:
            failures.append(str(failed(plugin.name, "unreserve", problem)))
    return failures


@dataclass
class Permission:
    """What the Permit plugins said together."""

    status: Status | None = None
    """A rejection or an error; None when the pod may go, now or after waiting."""
    waits: dict[str, float] = field(default_factory=dict)
    """The plugins that hold the pod back, and for how long at most."""


def run_permit(profile: Profile, state: CycleState, pod: Pod, node_name: str) -> Permission:
    """All Permit plugins in order, until one rejects the pod."""
    permission = Permission()
    for plugin in profile.permits:
        try:
            given: object = plugin.permit(state, pod, node_name)
            if isinstance(given, Wait):
                permission.waits[plugin.name] = max(0.0, float(given.timeout))
                continue
            answer = checked_status(given)
        except BaseException as problem:
            answer = error(words_of(problem))
        permission.status = _failure("Permit", plugin.name, answer)
        if permission.status is not None:
            break
    return permission


def _failure(point: str, plugin: str, answer: Status | None) -> Status | None:
    """The plugin's answer, unless all is well."""
    if answer is None or answer.code is Code.SUCCESS:
        return None
    if answer.rejected:
        return answer.by(plugin)
    return error(f'running {point} plugin "{plugin}": {answer.message}').by(plugin)
