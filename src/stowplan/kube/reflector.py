"""A copy of all objects of one kind that follows the API server, and tells about every change.

First everything is fetched, then a watch brings what changes. A watch that ends is taken up where it
ended. When the server does not know that place any more (410), everything is fetched again and compared
with the copy, so that those who listen see only what changed: nothing is announced twice, nothing is lost.
"""

from __future__ import annotations

import asyncio
import logging
import random as chance
import time
from collections.abc import Awaitable, Callable

import msgspec

from stowplan.kube.backoff import Backoff
from stowplan.kube.client import ApiClient, with_parameters
from stowplan.kube.errors import ApiError, CredentialsError
from stowplan.kube.resources import kind_path
from stowplan.kube.watch import (
    Lines,
    RawPage,
    decode_event,
    decode_page,
    error_in,
    outline,
)
from stowplan.objects import KubeObject, ObjectError, ObjectKind

log = logging.getLogger(__name__)

EventHandler = Callable[[ObjectKind, KubeObject | None, KubeObject | None], None]
"""Kind, the object before (None: it is new), the object after (None: it is gone)."""
NOT_FINISHED = "status.phase!=Succeeded,status.phase!=Failed"
"""The field selector for pods that still matter to a scheduler."""

_PAGE_SIZE = 2000  # a quarter of the API server's work of pages of 500
_AT_ONCE = 250
_SHORTEST_WATCH = 300.0
_QUIET_LIMIT = 150.0  # bookmarks come every minute
_FIRST_DELAY = 0.2
_LONGEST_DELAY = 30.0
_GOOD_WATCH = 5.0
_ALL_AT_ONCE = 120.0
"""Seconds for an answer with all objects in it; the API server itself gives up after a minute."""
_LASTS = 60.0
"""Seconds after which trouble that goes on is told again."""


class Reflector:
    """One kind's objects. `run` it in a task; everything else is called from that task."""

    def __init__(
        self,
        client: ApiClient,
        kind: ObjectKind,
        on_event: EventHandler,
        *,
        namespace: str = "",
        field_selector: str = "",
        label_selector: str = "",
        on_malformed: Callable[[ObjectKind, ObjectError], None] | None = None,
        on_unavailable: Callable[[ObjectKind, ApiError], None] | None = None,
        page_size: int = _PAGE_SIZE,
        quiet_limit: float = _QUIET_LIMIT,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = chance.random,
    ) -> None:
        self.kind = kind
        self.objects: dict[str, KubeObject] = {}
        """The copy, by `namespace/name`."""
        self.synced = False
        """Whether everything has been fetched once."""
        self.unavailable: ApiError | None = None
        """Why this kind cannot be had (it does not exist, or may not be read), as long as that lasts."""
        self.settled = asyncio.Event()
        """Set once everything was fetched, or it is known that this kind cannot be had."""
        self.lists = 0
        """How often everything was fetched."""
        self._client = client
        self._on_event = on_event
        self._on_malformed = on_malformed
        self._on_unavailable = on_unavailable
        self._path = kind_path(kind, namespace)
        self._selectors = {"fieldSelector": field_selector, "labelSelector": label_selector}
        self._page_size = page_size
        self._quiet_limit = quiet_limit
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._backoff = Backoff(_FIRST_DELAY, _LONGEST_DELAY, random)
        self._version = ""
        """Where to take up the watch; empty when everything has to be fetched."""
        self._told_at: float | None = None
        """When trouble was told last; None while there is none."""
        self._said = ""
        """Why this kind could not be had, when that was said last. It may be listed and still not watched."""

    async def run(self) -> None:
        """Follows the server until cancelled."""
        while True:
            try:
                if not self._version:
                    await self._fetch()
                await self._watch()
            except ApiError as error:
                await self._sleep(self._after(error))
            except (msgspec.MsgspecError, ValueError) as error:
                log.warning("%s: the API server's answer cannot be read: %s", self._path, error)
                self._version = ""
                await self._sleep(self._backoff.next())
            except Exception:  # a kind that nobody follows any more would be a scheduler gone blind
                log.exception("%s: cannot be followed", self._path)
                self._version = ""
                await self._sleep(self._backoff.next())

    def _after(self, error: ApiError) -> float:
        """Makes of an error what has to be made of it, and says when to try again."""
        delay = self._backoff.next()
        if error.is_expired or _from_the_future(error):
            log.debug("%s: fetching everything again: %s", self._path, error)
            self._version = ""
            return delay
        if error.is_forbidden or error.is_not_found:
            self._cannot_be_had(error)
            return delay
        self._tell(error, delay)
        if error.retry_after is not None:
            delay = max(delay, error.retry_after)
        return delay

    def _tell(self, error: ApiError, delay: float) -> None:
        """A hiccup is worth a line. What lasts is a warning, told now and then for as long as it does."""
        now, told_at = self._clock(), self._told_at
        lasts = told_at is not None and now - told_at >= _LASTS
        if told_at is None or lasts:
            self._told_at = now
        known = told_at is not None and not isinstance(error, CredentialsError)
        level = logging.WARNING if lasts else logging.DEBUG if known else logging.INFO
        log.log(level, "%s: trying again in %.1f s: %s", self._path, delay, error)

    def _cannot_be_had(self, error: ApiError) -> None:
        """Said once. It may be over in a moment: an API server that has just started refuses what it has not
        read the roles for yet."""
        if self.unavailable is None:
            self.unavailable = error
            if self._on_unavailable is not None and str(error) != self._said:
                self._on_unavailable(self.kind, error)
            self._said = str(error)
        self.settled.set()
        self._version = ""

    # Everything

    async def _fetch(self) -> None:
        seen: set[str] = set()
        token = ""
        asked = asyncio.ensure_future(self._page(token, self._page_size))
        try:
            while True:
                try:
                    page = await asked
                except ApiError as error:
                    if not (token and error.is_expired):
                        raise
                    # The pages took longer than the server remembers.
                    token = ""
                    asked = asyncio.ensure_future(self._page(token, 0))
                    seen.clear()
                    continue
                token = page.metadata.continue_
                if token:  # the server works on the next page while this one is read
                    asked = asyncio.ensure_future(self._page(token, self._page_size))
                await self._take_all(page, seen)
                if not token:
                    break
        finally:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
        self._forget_all_but(seen)
        self._version = page.metadata.resource_version
        self._is_synced()

    async def _page(self, token: str, size: int) -> RawPage:
        """So many objects from a token on; all with a size of 0."""
        parameters = {"limit": str(size) if size else "", "continue": token, **self._selectors}
        timeout = None if size else _ALL_AT_ONCE
        answer = await self._client.request("GET", with_parameters(self._path, parameters), timeout=timeout)
        return decode_page(answer.body)

    async def _take_all(self, page: RawPage, seen: set[str]) -> None:
        for number, raw in enumerate(page.items or (), start=1):
            self._take(raw, seen)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)  # others want to work as well

    def _take(self, raw: msgspec.Raw, seen: set[str]) -> None:
        try:
            new = self.kind.decode(raw)
        except ObjectError as error:
            self._malformed(error)
            sketch = outline(raw)
            if sketch is not None:
                seen.add(sketch.key(self.kind))  # what is known of it is better than nothing
            return
        key = new.key
        seen.add(key)
        self._put(key, new)

    def _forget_all_but(self, seen: set[str]) -> None:
        for key in [key for key in self.objects if key not in seen]:
            self._announce(self.objects.pop(key), None)

    def _is_synced(self) -> None:
        self.lists += 1
        if self.unavailable is not None:
            log.info("%s can be read now", self._path)
        self.synced, self.unavailable, self._told_at = True, None, None
        self.settled.set()

    # What changes

    async def _watch(self) -> None:
        seconds = round(_SHORTEST_WATCH * (1.0 + self._random()))
        parameters = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(seconds),
            **self._selectors,
        }
        started, version = self._clock(), self._version
        try:
            await self._client.stream(
                with_parameters(self._path, parameters),
                Lines(self._line).feed,
                idle_timeout=self._quiet_limit,
            )
        finally:
            if self._version != version or self._clock() - started >= _GOOD_WATCH:
                self._backoff.reset()
                self._told_at, self._said = None, ""
        if self._version == version and self._clock() - started < 1.0:
            await self._sleep(self._backoff.next())  # a server that ends watches at once needs time

    def _line(self, line: bytes) -> None:
        event = decode_event(line)
        kind_of_event = event.type
        if kind_of_event == "BOOKMARK":
            self._bookmark(event.object)
            return
        if kind_of_event == "ERROR":
            raise error_in(event.object)
        try:
            new = self.kind.decode(event.object)
        except ObjectError as error:
            self._malformed_event(kind_of_event, event.object, error)
            return
        self._version = new.resource_version
        key = new.key
        if kind_of_event != "DELETED":
            self._put(key, new)
        elif (old := self.objects.pop(key, None)) is not None:
            self._announce(old, None)

    def _bookmark(self, raw: msgspec.Raw) -> None:
        sketch = outline(raw)
        if sketch is not None and sketch.metadata.resource_version:
            self._version = sketch.metadata.resource_version

    def _malformed_event(self, kind_of_event: str, raw: msgspec.Raw, error: ObjectError) -> None:
        """Is reported and skipped. What is gone is gone, however it looked."""
        sketch = outline(raw)
        if sketch is not None:
            self._version = sketch.metadata.resource_version or self._version
            if (
                kind_of_event == "DELETED"
                and (old := self.objects.pop(sketch.key(self.kind), None)) is not None
            ):
                self._announce(old, None)
                return
        self._malformed(error)

    # The copy

    def _put(self, key: str, new: KubeObject) -> None:
        old = self.objects.get(key)
        if old is not None:
            if old.resource_version == new.resource_version:
                return
            if old.uid != new.uid:  # its end was missed: another one has its name now
                del self.objects[key]
                self._announce(old, None)
                old = None
        self.objects[key] = new
        self._announce(old, new)

    def _announce(self, old: KubeObject | None, new: KubeObject | None) -> None:
        try:
            self._on_event(self.kind, old, new)
        except Exception:
            about = new or old
            log.exception("%s %s: a change could not be worked in", self.kind.name, about and about.key)

    def _malformed(self, error: ObjectError) -> None:
        if self._on_malformed is not None:
            self._on_malformed(self.kind, error)
        else:
            log.warning("skipped: %s", error)


def _from_the_future(error: ApiError) -> bool:
    """The server has never seen our version: it was restored from a backup."""
    return error.status == 504 and "Too large resource version" in error.message
