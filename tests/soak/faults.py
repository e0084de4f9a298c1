"""What is thrown in. Each fault happens while pods are being scheduled, and cleans up after itself."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Awaitable, Callable
from typing import Any

from tests.control_plane.client import ApiError
from tests.soak.proxy import Request, Treatment, expired, refusal
from tests.soak.run import Run

Fault = Callable[[Run], Awaitable[str]]
"""Does its worst, and says in a few words what that was."""

_LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
_RULE_SECONDS = 10.0


def _is_bind(request: Request) -> bool:
    return request.is_bind


def _is_write(request: Request) -> bool:
    return request.method != "GET" and not request.is_lease


# The API server and etcd


async def kill_api_server(run: Run) -> str:
    """SIGKILL, and the same server again. For a while connections are refused, or taken and cut."""
    refused = run.chance.random() < 0.5
    run.servers.kill_api()
    if refused:
        for proxy in run.proxies:
            await proxy.refuse_connections()
    await asyncio.sleep(run.chance.uniform(0.5, 3.0))
    run.servers.start_api()
    await asyncio.to_thread(run.servers.wait_for_api)
    if refused:
        for proxy in run.proxies:
            await proxy.listen()
    return "connections were refused" if refused else "connections were taken and cut"


async def freeze_etcd(run: Run) -> str:
    seconds = 10.0
    run.servers.freeze_etcd()
    try:
        await asyncio.sleep(seconds)
    finally:
        run.servers.thaw_etcd()
    return f"for {seconds:.0f} s"


# Single requests


async def _for_some(run: Run, matches: Callable[[Request], bool], treatment: Any, times: int) -> str:
    """Applies to so many requests of the leader, or as many as come in a while."""
    proxy = (await run.leader()).proxy
    rule = proxy.add(matches, treatment, times)
    try:
        run.load.burst(run.share // 3)
        await run.until(lambda: rule.used_up, _RULE_SECONDS)
    finally:
        proxy.remove(rule)
    if not rule.used:
        raise AssertionError("no request came that the fault could happen to")
    return f"{rule.used} requests of {proxy.replica}"


async def cut_binds_before(run: Run) -> str:
    return await _for_some(run, _is_bind, Treatment.CUT_BEFORE, run.chance.randint(5, 40))


async def cut_binds_after(run: Run) -> str:
    return await _for_some(run, _is_bind, Treatment.CUT_AFTER, run.chance.randint(5, 40))


async def too_many_requests(run: Run) -> str:
    answer = refusal(429, retry_after=1)
    return await _for_some(run, _is_write, answer, run.chance.randint(20, 100))


async def internal_errors(run: Run) -> str:
    status = run.chance.choice([500, 503, 504])
    said = await _for_some(run, _is_write, refusal(status), run.chance.randint(20, 100))
    return f"{said} got a {status}"


# Watches and connections


async def end_watches(run: Run) -> str:
    ended = sum(proxy.end_watches(politely=True) for proxy in run.proxies)
    return f"{ended} watches"


async def cut_watches(run: Run) -> str:
    ended = sum(proxy.end_watches(politely=False) for proxy in run.proxies)
    return f"{ended} watches"


async def cut_connections(run: Run) -> str:
    return f"{sum(proxy.cut_all() for proxy in run.proxies)} connections"


async def expire_watches(run: Run) -> str:
    """All watches end, and what follows is told that its version is too old: everything is listed again."""
    in_stream = run.chance.random() < 0.5
    rules = [
        (
            proxy,
            proxy.add(lambda request: request.is_watch, expired(in_stream=in_stream), max(proxy.watches, 1)),
        )
        for proxy in run.proxies
    ]
    try:
        for proxy in run.proxies:
            proxy.end_watches(politely=True)
        await run.until(lambda: all(rule.used_up for _, rule in rules), _RULE_SECONDS)
    finally:
        for proxy, rule in rules:
            proxy.remove(rule)
    used = sum(rule.used for _, rule in rules)
    return f"{used} watches, {'as an event' if in_stream else 'as a status'}"


# Leases and processes


async def hold_lease_back(run: Run) -> str:
    """The leader cannot renew, though everything else still gets through: it has to stop by itself."""
    leader = await run.leader()
    rule = leader.proxy.add(lambda request: request.is_lease, Treatment.HOLD)
    try:
        await run.keep_busy(lambda: run.book.holder not in {leader.name, ""}, 4.0 * run.times.duration)
    finally:
        leader.proxy.remove(rule)
    return f"{leader.name} could not renew; {run.book.holder or 'nobody'} took over"


async def steal_lease(run: Run) -> str:
    """Somebody writes himself into the lease, and is never heard of again."""
    leader = await run.leader()
    await asyncio.to_thread(_steal, run)
    run.book.stolen(run.clock(), run.times.retry + 1.5)
    await run.keep_busy(lambda: run.book.holder != "", 6.0 * run.times.duration)
    return f"from {leader.name}; {run.book.holder or 'nobody'} took over"


def _steal(run: Run) -> None:
    with run.plane.client() as client:
        for attempt in range(10):
            lease = client.get(_LEASE)
            now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            lease["spec"] |= {"holderIdentity": "intruder", "leaseDurationSeconds": 3, "renewTime": now}
            try:
                client.call("PUT", _LEASE, lease)
                return
            except ApiError as error:
                if error.status != 409 or attempt == 9:
                    raise


async def kill_leader(run: Run) -> str:
    leader = await run.leader()
    leader.kill()
    await run.keep_busy(lambda: run.book.holder not in {leader.name, ""}, 4.0 * run.times.duration)
    return f"{leader.name}; {run.book.holder or 'nobody'} took over"


async def kill_all_schedulers(run: Run) -> str:
    for replica in run.replicas:
        replica.kill()
    return " and ".join(replica.name for replica in run.replicas)


async def terminate_leader(run: Run) -> str:
    """Politely: it hands the lease over, and the other need not wait."""
    leader = await run.leader()
    asked = run.clock()
    leader.terminate()
    await run.keep_busy(lambda: run.book.holder not in {leader.name, ""}, 4.0 * run.times.duration)
    return f"{leader.name}; {run.book.holder or 'nobody'} took over after {run.clock() - asked:.1f} s"


FAULTS: dict[str, Fault] = {
    "binds cut after the server did them": cut_binds_after,
    "leader killed": kill_leader,
    "429 with Retry-After": too_many_requests,
    "watches expired (410)": expire_watches,
    "API server killed": kill_api_server,
    "watches ended": end_watches,
    "500, 503 or 504": internal_errors,
    "lease held back": hold_lease_back,
    "binds cut before the server saw them": cut_binds_before,
    "etcd frozen": freeze_etcd,
    "watches cut": cut_watches,
    "lease stolen": steal_lease,
    "all connections cut": cut_connections,
    "leader terminated": terminate_leader,
    "both schedulers killed": kill_all_schedulers,
}
"""By name, the most telling first: a short run takes as many as it has time for."""
