"""Leader election on a Lease: of several schedulers, one acts.

Whoever holds the lease renews it. The others watch it, and take it over when it has not changed for the
time that its holder promised. Only the local clock counts for that: clocks of machines differ. A holder
that cannot renew gives up earlier than others may take over, so that there are never two.
"""

from __future__ import annotations

import asyncio
import logging
import random as chance
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from urllib.parse import quote

import msgspec

from stowplan.config.types import RETRY_JITTER
from stowplan.kube.client import ApiClient
from stowplan.kube.errors import ApiError
from stowplan.kube.resources import collection_path
from stowplan.kube.times import micro_time

log = logging.getLogger(__name__)

_API_VERSION = "coordination.k8s.io/v1"

Json = dict[str, Any]


class LeaseLostError(Exception):
    """The lease could not be renewed in time: another scheduler may act now, so this one must not."""


class LeaderElector:
    """One candidate."""

    def __init__(
        self,
        client: ApiClient,
        *,
        identity: str,
        namespace: str = "kube-system",
        name: str = "kube-scheduler",
        lease_duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry_period: float = 2.0,
        on_new_leader: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = chance.random,
    ) -> None:
        if not lease_duration > renew_deadline > RETRY_JITTER * retry_period > 0:
            raise ValueError(
                "leader election: leaseDuration must be longer than renewDeadline, and that longer than "
                f"{RETRY_JITTER} times retryPeriod, which must be above 0"
            )
        self.identity = identity
        self.leader = ""
        """Who holds the lease, as far as known; empty for nobody."""
        self._client = client
        self._collection = collection_path(_API_VERSION, "leases", namespace)
        self._path = f"{self._collection}/{quote(name, safe='')}"
        self._metadata = {"name": name, "namespace": namespace}
        self._lease_duration = lease_duration
        self._renew_deadline = renew_deadline
        self._retry_period = retry_period
        self._on_new_leader = on_new_leader
        self._clock = clock
        self._wall = wall_clock
        self._sleep = sleep
        self._random = random
        self._seen: Json | None = None
        """The lease as last seen, and (below) when it was first seen like that."""
        self._seen_at = 0.0
        self._renewed_at: float | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this candidate may act now. Turns false by itself when time runs out."""
        if self._renewed_at is None:
            return False
        return self._clock() - self._renewed_at < self._renew_deadline + self._retry_period

    def problem(self, tolerance: float = 20.0) -> str | None:
        """For health checks: what is wrong when the lease ran out long ago and we still think we have it."""
        if self._renewed_at is None:
            return None
        overdue = self._clock() - self._renewed_at - self._lease_duration
        if overdue <= tolerance:
            return None
        return f"failed election to renew leadership on lease {self._metadata['name']}"

    async def run(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Waits for the lease, then leads. Returns when `lead` does; LeaseLostError when the lease is lost,
        with `lead` cancelled. However it ends, a lease that is held is handed over."""
        await self.acquire()
        leading = asyncio.ensure_future(lead())
        keeping = asyncio.ensure_future(self.keep())
        try:
            await asyncio.wait({leading, keeping}, return_when=asyncio.FIRST_COMPLETED)
            if leading.done():
                leading.result()
            else:
                keeping.result()
        finally:
            for task in (leading, keeping):
                task.cancel()
            await asyncio.gather(leading, keeping, return_exceptions=True)
            await self.release()

    async def acquire(self) -> None:
        """Returns once the lease is ours."""
        while not await self._attempt():
            await self._sleep(self._retry_period * (1.0 + RETRY_JITTER * self._random()))
        log.info("leading: %s holds the lease %s/%s", self.identity, *reversed(self._metadata.values()))

    async def keep(self) -> None:
        """Renews the lease until that fails for too long: LeaseLostError."""
        while True:
            await self._sleep(self._retry_period)
            deadline = self._clock() + self._renew_deadline
            while not await self._attempt():
                if self.leader != self.identity or self._clock() + self._retry_period >= deadline:
                    self._renewed_at = None
                    raise LeaseLostError(f"the lease was lost (held by {self.leader or 'nobody'} now)")
                await self._sleep(self._retry_period)

    async def release(self) -> None:
        """Hands the lease over, if it is ours: the next holder need not wait."""
        held, self._renewed_at = self._renewed_at, None
        if held is None or self._seen is None or self.leader != self.identity:
            return
        try:
            async with asyncio.timeout(self._patience):
                await self._hand_over()
        except (ApiError, TimeoutError) as error:
            log.warning("the lease could not be handed over: %s", error)

    async def _hand_over(self) -> None:
        for last in (False, True):
            assert self._seen is not None
            spec = {**self._seen["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
            spec["renewTime"] = spec["acquireTime"] = micro_time(self._wall())
            try:
                await self._put(spec)
                return
            except ApiError as error:
                if last or not error.is_conflict:
                    raise
            # A renewal that was under way when we stopped has come through.
            await self._look()
            if self.leader != self.identity:
                return

    # One attempt

    async def _attempt(self) -> bool:
        """Whether the lease is ours after trying to get or to renew it."""
        started = self._clock()
        try:
            async with asyncio.timeout(self._renew_deadline):
                ours = await self._acquire_or_renew()
        except ApiError as error:
            log.info("leader election: %s", error)
            return False
        except TimeoutError:
            log.info("leader election: no answer within %.0f s", self._renew_deadline)
            return False
        if ours:
            self._renewed_at = started
        return ours

    async def _acquire_or_renew(self) -> bool:
        if self.leader == self.identity and self._seen is not None and self.is_leader:
            try:
                await self._put(self._renewal(self._seen["spec"]))
                return True
            except ApiError as error:
                if not error.is_conflict and not error.is_not_found:
                    raise
        try:
            await self._look()
        except ApiError as error:
            if not error.is_not_found:
                raise
            await self._create()
            return True
        assert self._seen is not None
        spec = self._seen["spec"]
        promised = float(spec.get("leaseDurationSeconds") or 0)
        if self.leader and self.leader != self.identity and self._clock() < self._seen_at + promised:
            return False
        await self._put(self._renewal(spec))
        return True

    @property
    def _patience(self) -> float:
        return self._renew_deadline / 2

    def _renewal(self, spec: Json) -> Json:
        now = micro_time(self._wall())
        mine = spec.get("holderIdentity") == self.identity
        transitions = int(spec.get("leaseTransitions") or 0)
        return {
            **spec,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": int(self._lease_duration),
            "acquireTime": spec.get("acquireTime") or now if mine else now,
            "renewTime": now,
            "leaseTransitions": transitions if mine else transitions + 1,
        }

    async def _create(self) -> None:
        spec = {**self._renewal({"holderIdentity": self.identity}), "leaseTransitions": 0}
        await self._write("POST", self._collection, {"metadata": self._metadata, "spec": spec})

    async def _put(self, spec: Json) -> None:
        assert self._seen is not None
        # The version makes a conflict of it when somebody else was quicker.
        await self._write("PUT", self._path, {**self._seen, "spec": spec})

    async def _write(self, method: str, target: str, lease: Json) -> None:
        body = msgspec.json.encode({"apiVersion": _API_VERSION, "kind": "Lease", **lease})
        answer = await self._client.request(method, target, body, timeout=self._patience)
        self._look_at(_lease_in(answer.body))

    async def _look(self) -> None:
        answer = await self._client.request("GET", self._path, timeout=self._patience)
        self._look_at(_lease_in(answer.body))

    def _look_at(self, lease: Json) -> None:
        spec = lease["spec"]
        if self._seen is None or self._seen["spec"] != spec:
            self._seen_at = self._clock()
        self._seen = lease
        holder = str(spec.get("holderIdentity") or "")
        if holder != self.leader:
            self.leader = holder
            if holder and self._on_new_leader is not None:
                self._on_new_leader(holder)


def _lease_in(body: bytes) -> Json:
    """What the API server answered with; not all that answers in its place is one."""
    try:
        lease = msgspec.json.decode(body, type=Json)
        if isinstance(lease.setdefault("spec", {}), dict):
            return lease
    except (msgspec.MsgspecError, ValueError):
        pass
    raise ApiError(0, "Unreadable", "the answer is no lease")
