"""`python -m benchmarks.transport`: what a request and a watch event cost this process in CPU time.

A server in another process answers as an API server does, but at once. Measured are bindings (POST), events
(POST) and a watch of pods, over plain connections and over TLS; and the same bindings with aiohttp, if that
is installed. CPU time includes the kernel's share. The best of several rounds counts: the others were
disturbed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httptools

from stowplan.kube.access import Access
from stowplan.kube.client import ApiClient
from stowplan.kube.recorder import Recorder
from stowplan.kube.reflector import Reflector
from stowplan.kube.tls import Trust
from stowplan.objects import Pod, kind_of_record
from tests.control_plane.certificates import write_serving_pair

BUDGETS = {"binding": (25.0, 35.0), "watch event": (25.0, 25.0)}
"""Microseconds that are allowed, plain and with TLS."""
_CONCURRENT = 16
_HEAD = (
    b"HTTP/1.1 %d OK\r\n"
    b"Audit-Id: 5ab6e4b1-4a0c-4f8b-9d7e-111111111111\r\n"
    b"Cache-Control: no-cache, private\r\n"
    b"Content-Type: application/json\r\n"
    b"X-Kubernetes-Pf-Flowschema-Uid: 5ab6e4b1-4a0c-4f8b-9d7e-222222222222\r\n"
    b"X-Kubernetes-Pf-Prioritylevel-Uid: 5ab6e4b1-4a0c-4f8b-9d7e-333333333333\r\n"
    b"Date: Wed, 18 Nov 2026 21:00:00 GMT\r\n"
)
_BODY = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}\n'
_ANSWER = _HEAD % 201 + b"Content-Length: %d\r\n\r\n" % len(_BODY) + _BODY
_LIST = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}\n'


def _pod(number: int, version: int) -> dict[str, Any]:
    """As big as pods usually are when they come from a watch."""
    name = f"deployment-7f5b8c9d4-{number:05d}"
    fields: dict[str, Any] = {
        f"f:{key}": {".": {}} for key in ("labels", "containers", "tolerations", "volumes", "affinity")
    }
    managed = [{"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": fields}] * 3
    container = {
        "name": "main",
        "image": "registry.example.com/team/app:1.2.3",
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "env": [{"name": f"SETTING_{n}", "value": "value"} for n in range(10)],
        "volumeMounts": [{"name": f"kube-api-access-{number}", "mountPath": "/var/run/secrets"}],
    }
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"5ab6e4b1-4a0c-4f8b-9d7e-{number:012d}",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-11-18T21:00:00Z",
            "labels": {"app": "web", "pod-template-hash": "7f5b8c9d4"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "deployment-7f5b8c9d4"}
            ],
            "managedFields": managed,
        },
        "spec": {
            "containers": [container],
            "volumes": [{"name": f"kube-api-access-{number}", "projected": {"sources": []}}],
            "schedulerName": "default-scheduler",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


class _Answering(asyncio.Protocol):
    """Says yes to every POST, lists nothing, and watches a number of pods come."""

    def __init__(self, events: list[bytes]) -> None:
        self._events = events
        self._transport: Any = None
        self._target = b""
        self._parser = httptools.HttpRequestParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._target = url

    def on_message_complete(self) -> None:
        if self._parser.get_method() == b"POST":
            self._transport.write(_ANSWER)
        elif b"watch=true" not in self._target:
            self._transport.write(_HEAD % 200 + b"Content-Length: %d\r\n\r\n" % len(_LIST) + _LIST)
        else:
            self._transport.write(_HEAD % 200 + b"Transfer-Encoding: chunked\r\n\r\n")
            self._transport.write(b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in self._events))


async def _serve(port: int, events: int, certificate: str, key: str) -> None:
    context = None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
    lines = [
        json.dumps({"type": "ADDED", "object": _pod(n, n + 2)}, separators=(",", ":")).encode() + b"\n"
        for n in range(events)
    ]
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Answering(lines), "127.0.0.1", port, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def _server(events: int, certificate: str = "", key: str = "") -> Iterator[int]:
    command = [sys.executable, "-m", "benchmarks.transport", "--serve", str(events), certificate, key]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


async def _cost(work: Callable[[], Awaitable[object]], count: int, rounds: int) -> float:
    """Microseconds of CPU time for one of `count` things, in the best round."""
    best = float("inf")
    for _ in range(rounds):
        before = time.process_time()
        await work()
        best = min(best, (time.process_time() - before) / count * 1e6)
    return best


async def _many(one: Callable[[int], Awaitable[object]], count: int) -> None:
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await one(number)

    await asyncio.gather(*(worker() for _ in range(_CONCURRENT)))


async def _measure(access: Access, count: int, rounds: int) -> dict[str, float]:
    kind = kind_of_record(Pod)
    pods = [kind.decode(_pod(number, number + 1)) for number in range(count)]
    client = ApiClient(access)
    found = {}

    async def bind(number: int) -> None:
        pod = pods[number]
        assert isinstance(pod, Pod)
        await client.bind(pod, "node-00001")

    found["binding"] = await _cost(lambda: _many(bind, count), count, rounds)

    async def record_all() -> None:
        recorder = Recorder(client, host="bench", capacity=count)
        for pod in pods:
            recorder.record(
                pod,
                reporter="default-scheduler",
                type="Normal",
                reason="Scheduled",
                action="Binding",
                note=f"Successfully assigned {pod.key} to node-00001",
            )
        await recorder.close(patience=60)
        assert recorder.dropped == 0

    found["event"] = await _cost(record_all, count, rounds)

    async def watch() -> None:
        came = asyncio.Event()
        left = count

        def count_down(*_: object) -> None:
            nonlocal left
            left -= 1
            if not left:
                came.set()

        task = asyncio.ensure_future(Reflector(client, kind, count_down).run())
        await came.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    found["watch event"] = await _cost(watch, count, rounds)
    await client.close()
    return found


async def _measure_aiohttp(url: str, trust: str, count: int, rounds: int) -> float:
    import aiohttp  # type: ignore[import-not-found, unused-ignore]

    context = ssl.create_default_context(cadata=trust) if trust else None
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "x", "namespace": "default"}}
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=_CONCURRENT, ssl=context)
    ) as session:

        async def bind(number: int) -> None:
            path = f"{url}/api/v1/namespaces/default/pods/x-{number}/binding"
            async with session.post(path, json=body) as response:
                await response.read()

        return await _cost(lambda: _many(bind, count), count, rounds)


def _run(count: int, rounds: int) -> bool:
    print(f"CPU microseconds each ({os.cpu_count()} CPUs, best of {rounds} rounds of {count})\n")
    print(f"{'':24}{'plain':>8}{'TLS':>8}   allowed")
    columns: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder) / "server.crt", Path(folder) / "server.key"
        write_serving_pair(certificate, key)
        for scheme, files in (("http", ()), ("https", (str(certificate), str(key)))):
            trust = certificate.read_text() if files else ""
            with _server(count, *files) as port:
                url = f"{scheme}://127.0.0.1:{port}"
                found = asyncio.run(_measure(Access(server=url, trust=Trust(trust)), count, rounds))
                if importlib.util.find_spec("aiohttp"):
                    found["binding with aiohttp"] = asyncio.run(_measure_aiohttp(url, trust, count, rounds))
            columns.append(found)
    good = True
    for name in columns[0]:
        costs = [column[name] for column in columns]
        allowed = BUDGETS.get(name, ())
        good = good and all(cost <= most for cost, most in zip(costs, allowed, strict=False))
        limits = " / ".join(f"{most:.0f}" for most in allowed)
        print(f"{name:24}" + "".join(f"{cost:8.1f}" for cost in costs) + f"   {limits}".rstrip())
    return good


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transport", description=__doc__)
    parser.add_argument("--count", type=int, default=5000, help="requests and events in a round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--check", action="store_true", help="fail when a cost is above what is allowed")
    parser.add_argument("--serve", nargs=3, metavar=("EVENTS", "CERTIFICATE", "KEY"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        events, certificate, key = chosen.serve
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_serve(0, int(events), certificate, key))
        return 0
    good = _run(chosen.count, chosen.rounds)
    return 0 if good or not chosen.check else 1


if __name__ == "__main__":
    sys.exit(main())
