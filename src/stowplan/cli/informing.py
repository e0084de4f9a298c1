"""The copies of the cluster's objects that a scheduler follows: of all kinds its plugins look at, no more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, cast

from stowplan.config.reading import ALWAYS_READ, kinds_read
from stowplan.framework.profile import ProfilePlan
from stowplan.kube.client import ApiClient
from stowplan.kube.errors import ApiError
from stowplan.kube.reflector import NOT_FINISHED, Reflector
from stowplan.objects import KubeObject, Node, ObjectKind, Pod, kind_of_record
from stowplan.ops.dump import Truth

log = logging.getLogger(__name__)

Observe = Callable[[KubeObject | None, KubeObject | None], None]


def _nothing() -> None:
    pass


class Informers:
    """One reflector for each kind. Everything that changes is told to `observe`, then `changed` is called."""

    def __init__(self, client: ApiClient, profiles: Iterable[ProfilePlan], observe: Observe) -> None:
        self.changed: Callable[[], None] = _nothing
        self._client = client
        self._observe = observe
        self._readers = kinds_read(profiles)
        self._reflectors = {record: self._reflector(record) for record in (*ALWAYS_READ, *self._readers)}

    def _reflector(self, record: type[KubeObject]) -> Reflector:
        return Reflector(
            self._client,
            kind_of_record(record),
            self._on_event,
            field_selector=NOT_FINISHED if record is Pod else "",
            on_unavailable=self._on_unavailable,
        )

    def _on_event(self, kind: ObjectKind, old: KubeObject | None, new: KubeObject | None) -> None:
        self._observe(old, new)
        self.changed()

    def _on_unavailable(self, kind: ObjectKind, problem: ApiError) -> None:
        """Said once. The kind is asked for again now and then, so it can be installed or allowed later."""
        if self._reflectors[kind.record].synced:
            log.warning("%s cannot be read any more, so they count as last seen: %s", kind.plural, problem)
            return
        if kind.record in ALWAYS_READ:
            log.error("nothing can be scheduled while %s cannot be read: %s", kind.plural, problem)
            return
        plugins = ", ".join(self._readers.get(kind.record, ()))
        log.warning("%s cannot be read, so %s acts as if there were none: %s", kind.plural, plugins, problem)

    @property
    def pods(self) -> Mapping[str, Pod]:
        """The pods as last shown, by namespace and name."""
        return cast("Mapping[str, Pod]", self._reflectors[Pod].objects)

    def pods_now(self) -> list[Pod]:
        return list(self.pods.values())

    def start(self, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        for reflector in self._reflectors.values():
            spawn(reflector.run())

    async def settled(self) -> None:
        """Returns when all kinds have been read once or are known not to be there. Without nodes and pods
        there is nothing to schedule, so for these there is no way around."""
        await asyncio.gather(*(reflector.settled.wait() for reflector in self._reflectors.values()))
        while not all(self._reflectors[record].synced for record in ALWAYS_READ):  # noqa: ASYNC110
            await asyncio.sleep(0.2)

    def problem(self) -> str | None:
        """For the readiness check: what has not been read yet."""
        missing = [
            reflector.kind.plural
            for record, reflector in self._reflectors.items()
            if not (reflector.synced if record in ALWAYS_READ else reflector.settled.is_set())
        ]
        return f"handlers are not fully synchronized: {', '.join(missing)}" if missing else None

    async def fetch(self) -> Truth:
        """Nodes and pods, straight from the API server."""
        nodes = [obj for obj in await self._all(Node) if isinstance(obj, Node)]
        pods = [obj for obj in await self._all(Pod) if isinstance(obj, Pod)]
        return Truth(tuple(nodes), tuple(pods))

    async def _all(self, record: type[KubeObject]) -> list[KubeObject]:
        found: list[KubeObject] = []
        token = ""
        while True:
            page = await self._client.list_page(kind_of_record(record), continue_token=token)
            found += page.items
            token = page.continue_token
            if not token:
                return found
