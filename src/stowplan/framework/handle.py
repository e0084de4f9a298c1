"""What the host of the core gives to plugins: the cluster, the write side, the time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from stowplan.cluster import Cluster
from stowplan.framework.contract import Client
from stowplan.framework.waiting import WaitingPods

if TYPE_CHECKING:
    from stowplan.framework.profile import Profile


class ReadOnlyClient:
    """A write side that refuses: for deciding, explaining and what-if, which change nothing."""

    async def bind(self, pod: Any, node_name: str) -> NoReturn:
        raise PermissionError(f"{pod.key} is not bound to {node_name}: this scheduler only decides")

    async def update(self, obj: Any, *, subresource: str = "") -> NoReturn:
        raise PermissionError(f"{obj.name} is not updated: this scheduler only decides")

    async def create(self, obj: Any) -> NoReturn:
        raise PermissionError(f"{obj.name} is not created: this scheduler only decides")

    async def delete(self, obj: Any) -> NoReturn:
        raise PermissionError(f"{obj.name} is not deleted: this scheduler only decides")

    async def patch(self, obj: Any, patch: Any, *, subresource: str = "") -> NoReturn:
        raise PermissionError(f"{obj.name} is not patched: this scheduler only decides")


def drop(work: Coroutine[Any, Any, None]) -> None:
    """Does not do the work: for hosts that only decide."""
    work.close()


async def refuse_to_wait(seconds: float) -> None:
    """Does not wait: a host that only decides has no clock."""
    raise PermissionError(f"cannot wait for {seconds} seconds: this scheduler only decides")


@dataclass
class Host:
    """The surroundings of the core. One host serves all profiles."""

    cluster: Cluster
    client: Client = field(default_factory=ReadOnlyClient)
    now: Callable[[], float] = lambda: 0.0
    later: Callable[[Coroutine[Any, Any, None]], object] = drop
    seed: int = 0
    sleep: Callable[[float], Awaitable[None]] = refuse_to_wait
    """Waits by the same clock as `now`."""
    waiting: WaitingPods = field(default_factory=WaitingPods)


@dataclass
class ProfileHandle:
    """The host as one profile's plugins see it."""

    host: Host
    profile: Profile

    @property
    def cluster(self) -> Cluster:
        return self.host.cluster

    @property
    def client(self) -> Client:
        return self.host.client

    @property
    def seed(self) -> int:
        return self.host.seed

    @property
    def waiting(self) -> WaitingPods:
        return self.host.waiting

    def now(self) -> float:
        return self.host.now()

    async def sleep(self, seconds: float) -> None:
        await self.host.sleep(seconds)

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        self.host.later(work)
