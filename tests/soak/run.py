"""A run: pods come and go, faults happen, and books are kept of what the API server says about it."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests.control_plane.plane import ControlPlane
from tests.soak.leasebook import LeaseBook
from tests.soak.ledger import Ledger
from tests.soak.load import NODES, PODS_PER_NODE, Load, node
from tests.soak.proxy import Exchange, Listener, Proxy
from tests.soak.replicas import LeaseTimes, Replica
from tests.soak.servers import Servers
from tests.soak.watching import Watcher, trust_in

_LOOK = 0.25
_LEADER_SECONDS = 60.0
_FULL = 0.95
"""The share of the nodes' room above which pods are taken away, as if they were done."""


@dataclass
class Journal(Listener):
    """Tells the books what passes through the proxies."""

    book: LeaseBook
    ledger: Ledger
    answers: Counter[str] = field(default_factory=Counter)
    """What became of bindings."""

    def arrived(self, replica: str, exchange: Exchange) -> None:
        request = exchange.request
        if request.is_bind:
            self.book.bound(replica, request.path.split("/")[-2], request.at)

    def answered(self, replica: str, exchange: Exchange) -> None:
        request, status = exchange.request, exchange.status
        if request.is_bind:
            self.answers[f"binding: {status}"] += 1
            if status == 201:
                binding = request.json()
                metadata = binding["metadata"]
                self.ledger.accepted(metadata["uid"], metadata["name"], binding["target"]["name"])
        elif request.is_lease and request.method != "GET" and status in {200, 201}:
            if request.json()["spec"].get("holderIdentity"):
                self.book.renewed(replica, sent=request.at)
            else:
                self.book.released(replica, sent=request.at)


@dataclass
class Run:
    """Everything that takes part."""

    plane: ControlPlane
    folder: Path
    pods: int
    nodes: int
    share: int
    """How many pods belong to one fault."""
    seed: int
    times: LeaseTimes = field(default_factory=LeaseTimes)
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.ledger = Ledger()
        self.book = LeaseBook(self.times.duration)
        self.journal = Journal(self.book, self.ledger)
        self.servers = Servers(self.plane)
        self.load = Load(self.plane, self.ledger, self.pods, self.seed)
        self.watcher = Watcher(self.plane, self.ledger)
        self.proxies: Sequence[Proxy] = ()
        self.replicas: Sequence[Replica] = ()
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await asyncio.to_thread(self._make_nodes)
        self.watcher.start()
        self.load.start()
        address = urlsplit(self.plane.server)
        assert address.hostname and address.port
        trust = trust_in(self.plane)
        self.proxies = [
            Proxy(name, (address.hostname, address.port), trust, self.journal, self.clock) for name in "ab"
        ]
        for proxy in self.proxies:
            await proxy.listen()
        self.replicas = [
            Replica(self.plane, proxy, self.book, self.folder, self.times) for proxy in self.proxies
        ]
        for replica in self.replicas:
            replica.start()
        self._looking = asyncio.create_task(self._look_after())

    def _make_nodes(self) -> None:
        with self.plane.client() as client:
            for number in range(self.nodes):
                self.ledger.add_node(client.create(NODES, node(number)))

    async def close(self) -> None:
        """Ends everything that runs, whatever state it is in."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        for replica in self.replicas:
            replica.restarts = False
            replica.kill()
        for proxy in self.proxies:
            await proxy.close()
        await asyncio.to_thread(self.load.stop)
        await asyncio.to_thread(self.watcher.stop)
        self.servers.close()

    async def _look_after(self) -> None:
        while True:
            for replica in self.replicas:
                replica.look_after(self.clock())
            await asyncio.sleep(_LOOK)

    # What faults need

    async def leader(self) -> Replica:
        """The replica that has the lease; waits until there is one."""
        await self.until(lambda: self._leading() is not None, _LEADER_SECONDS)
        leader = self._leading()
        if leader is None:
            raise TimeoutError(f"no scheduler had the lease for {_LEADER_SECONDS:.0f} s")
        return leader

    def _leading(self) -> Replica | None:
        return next((each for each in self.replicas if each.running and each.name == self.book.holder), None)

    async def until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Whether it came true in time."""
        deadline = self.clock() + seconds
        while not condition():
            if self.clock() > deadline:
                return False
            await asyncio.sleep(0.05)
        return True

    async def keep_busy(self, condition: Callable[[], bool], seconds: float) -> bool:
        """The same, with more pods coming all the time."""
        deadline = self.clock() + seconds
        while not await self.until(condition, 1.0):
            if self.clock() > deadline:
                return False
            self.load.burst(max(self.share // 20, 1))
        return True

    def make_room(self) -> None:
        """When the nodes are nearly full, some pods are done."""
        too_many = len(self.ledger.placed()) - int(_FULL * self.nodes * PODS_PER_NODE)
        if too_many > 0:
            self.load.finish(too_many + self.share // 2)

    async def settled(self, seconds: float) -> bool:
        """Waits until every pod has a node that could have one."""

        def done() -> bool:
            return self.load.idle and not self.ledger.waiting_for_nothing()

        return await self.until(done, seconds)
