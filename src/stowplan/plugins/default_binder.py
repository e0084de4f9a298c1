"""DefaultBinder: writes the choice of a node to the API server."""

from __future__ import annotations

from stowplan.framework import BindPlugin, CycleState, Reads, Status
from stowplan.objects import Pod


class DefaultBinder(BindPlugin):
    """Binds the pod through the client of the host; what the client raises is the reason of failure."""

    reads = Reads.NODE

    def shape(self, pod: Pod) -> None:
        """No node is judged by binding."""

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        await self.handle.client.bind(pod, node_name)
        return None
