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
            status = plugin.reserve(state, pod, node_name)
        except Exception as problem:
            status = error(str(problem))
        if status is not None and status.code is not Code.SUCCESS:
            if status.rejected:
                return status.by(plugin.name)
            return error(f'running Reserve plugin "{plugin.name}": {status.message}').by(plugin.name)
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
            answer = plugin.permit(state, pod, node_name)
        except Exception as problem:
            answer = error(str(problem))
        if isinstance(answer, Wait):
            permission.waits[plugin.name] = answer.timeout
        elif answer is not None and answer.code is not Code.SUCCESS:
            if answer.rejected:
                permission.status = answer.by(plugin.name)
            else:
                words = f'running Permit plugin "{plugin.name}": {answer.message}'
                permission.status = error(words).by(plugin.name)
            return permission
    return permission
