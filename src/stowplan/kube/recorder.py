"""Events, as `kubectl describe` shows them: written some time soon, and never in anybody's way.

What happens again to the same object in the same way is one event with a count (a series): the second
time is written, later ones are counted and written now and then. When events come faster than they can
be written, the oldest that wait are dropped.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import msgspec

from stowplan.kube.client import STRATEGIC_MERGE, ApiClient
from stowplan.kube.errors import ApiError
from stowplan.kube.resources import collection_path, kind_of_record
from stowplan.kube.texts import legible
from stowplan.kube.times import micro_time
from stowplan.objects import KubeObject

log = logging.getLogger(__name__)

LONGEST_NOTE = 1024
_ELLIPSIS = " ..."
_LONGEST_NAME = 253
_API_VERSION = "events.k8s.io/v1"
_FINISHED_AFTER = 360.0
_REFRESHED_EVERY = 1800.0
_MOST_REMEMBERED = 4096
_TRIES = 12
_LONGEST_PAUSE = 10.0
_WHILE_OTHERS_WAIT = 0.05

_encoder = msgspec.json.Encoder()


class _Reference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Which object an event is about. With the version: what happens after a change is another event."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str
    resource_version: str

    @classmethod
    def to(cls, obj: KubeObject) -> _Reference:
        kind = kind_of_record(type(obj))
        return cls(kind.name, kind.api_version, obj.namespace, obj.name, obj.uid, obj.resource_version)


class _What(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """What makes two events the same."""

    regarding: _Reference
    type: str
    reason: str
    action: str
    reporting_controller: str
    reporting_instance: str
    related: _Reference | None = None


class _Series:
    """An event and how often it happened."""

    __slots__ = ("count", "first", "key", "last", "name", "note", "queued", "tries", "what", "written")

    def __init__(self, key: Hashable, what: _What, note: str, name: str, now: float) -> None:
        self.key = key
        self.what = what
        self.note = note
        self.name = name
        self.first = self.last = now
        self.count = 1
        self.written = 0
        """The count that the API server knows; 0 when the event does not exist there."""
        self.queued = False
        self.tries = 0

    @property
    def namespace(self) -> str:
        return self.what.regarding.namespace or "default"

    def series(self) -> dict[str, Any]:
        return {"count": self.count, "lastObservedTime": micro_time(self.last)}

    def manifest(self) -> dict[str, Any]:
        what, made = self.what, {"name": self.name, "namespace": self.namespace}
        event: dict[str, Any] = {
            "apiVersion": _API_VERSION,
            "kind": "Event",
            "metadata": made,
            "eventTime": micro_time(self.first),
            "reportingController": what.reporting_controller,
            "reportingInstance": what.reporting_instance,
            "action": what.action,
            "reason": what.reason,
            "regarding": what.regarding,
            "note": self.note,
            "type": what.type,
        }
        if what.related is not None:
            event["related"] = what.related
        if self.count > 1:
            event["series"] = self.series()
        return event


class Recorder:
    """Writes events with a client of its own, so that neither its rate nor its connections are shared.

    The API server is shared, though: while `gives_way` says that more important requests wait, events are
    written one by one with pauses, until half of what may wait does.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        host: str,
        capacity: int = 10_000,
        parallel: int = 8,
        gives_way: Callable[[], bool] = lambda: False,
        wall_clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.dropped = 0
        """Events that nobody will ever see: too many at once, or the API server did not want them."""
        self._client = client
        self._host = host
        self._capacity = capacity
        self._parallel = parallel
        self._gives_way = gives_way
        self._now = wall_clock
        self._sleep = sleep
        self._known: dict[Hashable, _Series] = {}
        self._queue: deque[_Series] = deque()
        self._writers: set[asyncio.Task[None]] = set()
        self._writing = 0
        self._stamp = 0
        self._tidied = self._refreshed = wall_clock()
        self._closed = False

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
        """Has an event written. Never waits, never fails. To be called with an event loop running."""
        if self._closed:
            return
        now = self._now()
        other = (related.uid or related.key, related.resource_version) if related is not None else None
        about = regarding.uid or regarding.key
        key = (about, regarding.resource_version, reason, action, type, reporter, other)
        known = self._known.get(key)
        if known is not None:
            known.count += 1
            known.last = now
            if known.count == 2:
                self._enqueue(known)
        else:
            what = _What(
                _Reference.to(regarding),
                type,
                reason,
                action,
                reporter,
                f"{reporter}-{self._host}",
                _Reference.to(related) if related is not None else None,
            )
            new = _Series(key, what, shortened(note), self._name_for(regarding.name, now), now)
            self._known[key] = new
            self._enqueue(new)
            if len(self._known) > _MOST_REMEMBERED:
                self._finish(next(iter(self._known.values())))
        if now - self._tidied >= _FINISHED_AFTER:
            self.tidy()

    def tidy(self) -> None:
        """Forgets what has not happened for a while, with its last count; writes the counts of the others now
        and then. Called by `record`; whoever records rarely may call it on a timer."""
        now = self._tidied = self._now()
        for series in [each for each in self._known.values() if now - each.last >= _FINISHED_AFTER]:
            self._finish(series)
        if now - self._refreshed >= _REFRESHED_EVERY:
            self._refreshed = now
            for series in self._known.values():
                if series.count > 1:
                    self._enqueue(series)

    async def close(self, patience: float = 0.0) -> None:
        """Writes what waits, for as long as patience lasts, and then no more."""
        self._closed = True
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while self._writers:  # those that stood back may call for others now
                    await asyncio.wait(self._writers)
        for writer in list(self._writers):
            writer.cancel()
        await asyncio.gather(*self._writers, return_exceptions=True)
        self.dropped += len(self._queue)
        self._queue.clear()

    # The queue

    def _name_for(self, name: str, now: float) -> str:
        self._stamp = max(self._stamp + 1, int(now * 1e9))
        suffix = f".{self._stamp:x}"
        return name[: _LONGEST_NAME - len(suffix)] + suffix

    def _finish(self, series: _Series) -> None:
        del self._known[series.key]
        if series.count > 1 and series.count != series.written:
            self._enqueue(series)

    def _enqueue(self, series: _Series) -> None:
        if series.queued:
            return
        series.queued = True
        self._queue.append(series)
        if len(self._queue) > self._capacity:
            self._drop(self._queue.popleft())
        self._hire()

    def _hire(self) -> None:
        if self._writing < self._wanted:
            self._writing += 1
            writer = asyncio.get_running_loop().create_task(self._write_all())
            self._writers.add(writer)
            writer.add_done_callback(self._writers.discard)

    @property
    def _wanted(self) -> int:
        """How many may write at once."""
        return 1 if self._stands_back else self._parallel

    @property
    def _stands_back(self) -> bool:
        return not self._closed and len(self._queue) <= self._capacity // 2 and self._gives_way()

    def _drop(self, series: _Series) -> None:
        self.dropped += 1
        series.queued, series.tries = False, 0
        if not series.written and self._known.get(series.key) is series:
            del self._known[series.key]

    async def _write_all(self) -> None:
        try:
            while self._queue and self._writing <= self._wanted:
                if self._stands_back:
                    await self._sleep(_WHILE_OTHERS_WAIT)
                    if not self._queue:
                        break
                series = self._queue.popleft()
                series.queued = False
                try:
                    await self._write(series)
                except ApiError as error:
                    await self._after(series, error)
                if self._queue:
                    self._hire()
        finally:
            self._writing -= 1

    async def _after(self, series: _Series, error: ApiError) -> None:
        series.tries += 1
        if error.is_passing and series.tries < _TRIES:
            self._requeue(series)
            await self._sleep(min(error.retry_after or 0.25 * 2**series.tries, _LONGEST_PAUSE))
        else:
            log.warning("event %s of %s is not written: %s", series.what.reason, series.name, error)
            self._drop(series)

    def _requeue(self, series: _Series) -> None:
        """To the front: it is older than what waits."""
        if series.queued:
            return
        if len(self._queue) >= self._capacity:
            self._drop(series)
        else:
            series.queued = True
            self._queue.appendleft(series)

    async def _write(self, series: _Series) -> None:
        count = series.count
        if series.written:
            patch = _encoder.encode({"series": series.series()})
            target = _path(series.namespace, series.name)
            try:
                await self._client.request("PATCH", target, patch, content_type=STRATEGIC_MERGE)
            except ApiError as error:
                if not error.is_not_found:
                    raise
                series.written = 0  # it expired on the server, so it is made again
        if not series.written:
            try:
                await self._client.request(
                    "POST", _path(series.namespace), _encoder.encode(series.manifest())
                )
            except ApiError as error:
                if not error.already_exists:  # it does when an earlier attempt came through after all
                    raise
                count = 1
        series.written = count
        series.tries = 0


def shortened(note: str) -> str:
    """A note that can be sent and is not longer than the API allows, in bytes."""
    note = legible(note)
    encoded = note.encode()
    if len(encoded) <= LONGEST_NOTE:
        return note
    return encoded[: LONGEST_NOTE - len(_ELLIPSIS)].decode(errors="ignore") + _ELLIPSIS


def _path(namespace: str, name: str = "") -> str:
    collection = collection_path(_API_VERSION, "events", namespace)
    return f"{collection}/{quote(name, safe='')}" if name else collection
