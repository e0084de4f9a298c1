"""The API server as a load sees it: bodies that were encoded before, answers that are not read.

The load shares the machine with what it measures, so it must cost little: requests go straight through this
project's transport, and the watch that sees pods being bound looks only for names in the bytes it gets.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from stowplan.kube.kubeconfig import load_access
from stowplan.kube.transport import Answer

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
JSON = b"application/json"
PROTOBUF = b"application/vnd.kubernetes.protobuf;stream=watch"
CONNECTIONS = 32
_SECONDS = 60.0
_DAY = 86400.0
_POD_NAME = re.compile(rb"[a-z]+-\d{6}")

Post = tuple[str, bytes]
"""Path and body."""


class ServerError(Exception):
    """The API server did not do what the load needs."""


class Server:
    """One API server, with all rights on it."""

    def __init__(self, kubeconfig: Path) -> None:
        access = load_access(str(kubeconfig), environ={})
        self._transport = access.transport(connections=CONNECTIONS)
        common = access.header_lines("stowplan-benchmark") + (access.credentials.current() or b"")
        self._headers = common + b"Content-Type: application/json\r\n"
        self._watching = b"".join(
            line for line in common.splitlines(keepends=True) if not line.startswith(b"Accept:")
        )

    async def call(self, method: str, path: str, body: bytes = b"", *, fine: tuple[int, ...] = ()) -> Answer:
        """One request; anything but success (or what else is fine) is an error."""
        answer = await self._transport.send(method, path, self._headers, body, timeout=_SECONDS)
        if answer.status >= 300 and answer.status not in fine:
            said = bytes(answer.body[:400]).decode(errors="replace")
            raise ServerError(f"{method} {path}: {answer.status}: {said}")
        return answer

    async def get(self, path: str) -> Any:
        return msgspec.json.decode((await self.call("GET", path)).body)

    async def post_all(self, posts: Iterable[Post], workers: int = CONNECTIONS) -> float:
        """Creates things, some at a time; returns the seconds that took."""
        waiting, started = iter(posts), time.perf_counter()

        async def work() -> None:
            for path, body in waiting:
                await self.call("POST", path, body)

        await asyncio.gather(*(work() for _ in range(workers)))
        return time.perf_counter() - started

    async def delete_all(self, collection: str) -> None:
        """Removes every object of a collection, some at a time: the server itself takes one after another."""
        listed = await self.get(collection)
        names = iter([each["metadata"]["name"] for each in listed["items"]])
        options = msgspec.json.encode({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})

        async def work() -> None:
            for name in names:
                await self.call("DELETE", f"{collection}/{name}", options, fine=(404,))

        await asyncio.gather(*(work() for _ in range(CONNECTIONS)))

    async def count(self, collection: str) -> int:
        """How many objects there are, at no cost to speak of."""
        page = await self.get(f"{collection}?limit=1")
        return len(page["items"]) + int(page["metadata"].get("remainingItemCount") or 0)

    async def watch(self, target: str, accept: bytes, on_data: Any) -> None:
        """Feeds a watch to `on_data` until cancelled."""
        headers = self._watching + b"Accept: " + accept + b"\r\n"
        answer = await self._transport.stream(
            "GET", target, headers, on_data, timeout=_SECONDS, idle_timeout=_DAY
        )
        raise ServerError(f"the watch of {target} ended: {answer.status} {bytes(answer.body[:400])!r}")

    async def close(self) -> None:
        await self._transport.close()


class BindingMeter:
    """Sees pods get their nodes, and when.

    It asks for the encoding that the scheduler under test uses itself, so that the server encodes each pod
    once, whoever is measured.
    """

    def __init__(self, server: Server, accept: bytes) -> None:
        self.bound: dict[str, float] = {}
        """When each pod was seen bound, by its name, in order."""
        self._server = server
        self._accept = accept
        self._rest = b""
        self._task: asyncio.Task[None] | None = None
        self._wanted = 0
        self._there = asyncio.Event()

    async def __aenter__(self) -> Self:
        version = (await self._server.get(f"{PODS}?limit=1"))["metadata"]["resourceVersion"]
        seconds = f"timeoutSeconds={_DAY:.0f}"
        target = f"{PODS}?watch=1&fieldSelector=spec.nodeName%21%3D&resourceVersion={version}&{seconds}"
        take = self._take_lines if self._accept == JSON else self._take_frames
        self._task = asyncio.create_task(self._server.watch(target, self._accept, take))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def until(self, count: int, patience: float) -> bool:
        """Waits until so many pods are bound; False when for so many seconds not one more was."""
        assert self._task is not None
        self._wanted = count
        while len(self.bound) < count:
            self._there.clear()
            before = len(self.bound)
            ready = asyncio.ensure_future(self._there.wait())
            await asyncio.wait({ready, self._task}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            ready.cancel()
            if self._task.done():
                self._task.result()
            if len(self.bound) == before:
                return False
        return True

    async def first(self, patience: float) -> bool:
        """Waits for the first binding."""
        return await self.until(1, patience)

    def _take_lines(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data if self._rest else data).split(b"\n")
        for line in lines:
            if line.startswith(b'{"type":"ADDED"'):
                self._take(line)

    def _take_frames(self, data: bytes) -> None:
        """Events in protobuf have their length in front, four bytes of it."""
        data = self._rest + data
        start = 0
        while len(data) - start >= 4:
            end = start + 4 + int.from_bytes(data[start : start + 4], "big")
            if end > len(data):
                break
            if data.startswith(b"\x0a\x05ADDED", start + 4):
                self._take(data[start + 4 : end])
            start = end
        self._rest = data[start:]

    def _take(self, event: bytes) -> None:
        found = _POD_NAME.search(event)
        if found is not None:
            self.bound.setdefault(found[0].decode(), time.perf_counter())
            if len(self.bound) >= self._wanted:
                self._there.set()
