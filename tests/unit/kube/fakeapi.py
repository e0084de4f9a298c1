"""A small API server for pods: versions, pages, watches, expiry. Faults are the test's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.unit.kube.fakeserver import CutNow, Exchange

Json = dict[str, Any]
Fault = Callable[[Exchange], Awaitable[bool]]


class FakeApi:
    """Pods by name, and everything that happened to them since `oldest`."""

    def __init__(self) -> None:
        self.version = 10
        self.oldest = 0
        self.pods: dict[str, Json] = {}
        self.log: list[tuple[int, str, Json]] = []
        self.changed = asyncio.Event()
        self.fault: Fault | None = None
        self.bookmarks = True
        self.watches = 0
        self.lists = 0
        self.generation = 0
        self.snapshots: dict[int, dict[str, Json]] = {}

    # What happens in the cluster

    def put(self, name: str, **labels: str) -> None:
        known = name in self.pods
        self.version += 1
        uid = self.pods[name]["metadata"]["uid"] if known else f"uid-{self.version}"
        metadata = {
            "name": name,
            "namespace": "default",
            "uid": uid,
            "resourceVersion": str(self.version),
            "labels": labels,
        }
        self.pods[name] = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}
        self._happened("MODIFIED" if known else "ADDED", self.pods[name])

    def remove(self, name: str) -> None:
        self.version += 1
        gone = self.pods.pop(name)
        metadata = {**gone["metadata"], "resourceVersion": str(self.version)}
        self._happened("DELETED", {**gone, "metadata": metadata})

    def raw_event(self, kind: str, pod: Any) -> None:
        self._happened(kind, pod)

    def forget_history(self) -> None:
        self.oldest = self.version
        self.log.clear()

    def end_watches(self) -> None:
        self.generation += 1
        self._wake()

    def state(self) -> dict[str, str]:
        return {f"default/{name}": pod["metadata"]["resourceVersion"] for name, pod in self.pods.items()}

    def _happened(self, kind: str, pod: Any) -> None:
        self.log.append((self.version, kind, pod))
        self._wake()

    def _wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    # What is asked

    async def __call__(self, exchange: Exchange) -> None:
        query = {
            name: values[0] for name, values in parse_qs(urlsplit(exchange.request.target).query).items()
        }
        if self.fault is not None and await self.fault(exchange):
            return
        if query.get("watch") == "true":
            await self._watch(exchange, int(query["resourceVersion"]))
        else:
            await self._list(exchange, query)

    async def _list(self, exchange: Exchange, query: dict[str, str]) -> None:
        self.lists += 1
        # All pages of a list show what was there when the first was asked for.
        at, _, after = query.get("continue", f"{self.version}/").partition("/")
        pods = self.snapshots.setdefault(int(at), dict(self.pods))
        names = sorted(name for name in pods if name > after)
        limit = int(query.get("limit", "0")) or len(names)
        page = names[:limit]
        metadata: Json = {"resourceVersion": at}
        if len(names) > limit:
            metadata["continue"] = f"{at}/{page[-1]}"
        items = [{"metadata": pods[name]["metadata"]} for name in page]
        await exchange.reply(
            200, {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}
        )

    async def _watch(self, exchange: Exchange, version: int) -> None:
        self.watches += 1
        mine = self.generation
        await exchange.start_stream()
        while self.generation == mine:
            changed = self.changed
            if version < self.oldest:
                gone = {
                    "kind": "Status",
                    "code": 410,
                    "reason": "Expired",
                    "message": "too old resource version",
                }
                await exchange.piece({"type": "ERROR", "object": gone})
                break
            for at, kind, pod in [each for each in self.log if each[0] > version]:
                await exchange.piece({"type": kind, "object": pod})
                version = at
            if self.bookmarks and version < self.version:
                version = self.version
                mark = {"kind": "Pod", "metadata": {"resourceVersion": str(version)}}
                await exchange.piece({"type": "BOOKMARK", "object": mark})
            await changed.wait()
        await exchange.end_stream()


async def cut(exchange: Exchange) -> bool:
    """A fault: every request is cut."""
    raise CutNow
