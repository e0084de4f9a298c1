"""Reserve and Permit: the last points of the scheduling cycle, and how they are taken back."""

from __future__ import annotations

from dataclasses import dataclass, field

from stowplan.framework.contract import CycleState, Wait
from stowplan.framework.profile import Profile
from stowplan.framework.status import Code, Status, error
from stowplan.objects import Pod


def run_reserve(profile: Profile, state: CycleState, pod: Pod, node_name: str) -> Status | None:
    """All Reserve plugins in order; the first that fails ends it; the caller then takes everything back."""
    for plugin in profile.reserves:
        try:
            answer: object = plugin.reserve(state, pod, node_name)
        except Exception as problem:
            answer = error(str(problem))
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
        except Exception as problem:
            failures.append(f'running Unreserve plugin "{plugin.name}": {type(problem).__name__}: {problem}')
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
            answer: object = plugin.permit(state, pod, node_name)
            if isinstance(answer, Wait):
                permission.waits[plugin.name] = max(0.0, float(answer.timeout))
                continue
        except Exception as problem:
            answer = error(str(problem))
        permission.status = _failure("Permit", plugin.name, answer)
        if permission.status is not None:
            break
    return permission


def _failure(point: str, plugin: str, answer: object) -> Status | None:
    """The plugin's answer, unless all is well. What is no answer at all is a failure like any other."""
    if answer is None:
        return None
    if not isinstance(answer, Status):
        answer = error(f"{answer!r} is not an answer")
    if answer.code is Code.SUCCESS:
        return None
    if answer.rejected:
        return answer.by(plugin)
    return error(f'running {point} plugin "{plugin}": {answer.message}').by(plugin)
