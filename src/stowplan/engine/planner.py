"""The write side that the engine needs: whoever hosts it carries its decisions out."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from stowplan.framework.contract import Client
from stowplan.objects import KubeObject, Pod


class PodCondition(NamedTuple):
    """A condition to write into a pod's status."""

    type: str
    status: str
    reason: str
    message: str


class Planner(Client, Protocol):
    """What happens in the world because of a decision. All but `record` may fail with an exception."""

    async def patch_status(
        self, pod: Pod, *, condition: PodCondition | None = None, nominated_node: str | None = None
    ) -> None:
        """Writes a condition and/or the nominated node ("" clears it); nothing if that changes nothing. A pod
        that is gone is no error."""
        ...

    async def evict(self, pod: Pod) -> None:
        """Deletes the pod, if it is still the same one (by uid). A pod that is gone is no error."""
        ...

    def record(
        self,
        regarding: KubeObject,
        *,
        reporter: str,
        type: str,
        reason: str,
        action: str,
        note: str,
        related: KubeObject | None = None,
    ) -> None:
        """Has an event written some time soon. Never waits and never fails."""
        ...
