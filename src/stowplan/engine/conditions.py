"""Why pods have no node, written into their status: never twice at once for a pod, and few at a time.

Thousands of pods can be turned down in the time in which an API server takes one write, again and again.
What is said of a pod later takes the place of what still waits to be written. Bindings, which go the same
way to the API server, are not kept waiting behind it all.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, Protocol

from stowplan.cluster.nominations import Nominations
from stowplan.engine.planner import Planner, PodCondition
from stowplan.objects import Pod

log = logging.getLogger(__name__)

AT_ONCE = 8
"""However many pods fail: bindings need connections, and an API server that has time for them."""


class PodsNow(Protocol):
    """The pods as the API server last showed them."""

    def get(self, key: str) -> Pod | None: ...


class _Note(NamedTuple):
    """What is to be written about a pod."""

    pod: Pod
    condition: PodCondition
    nominated_node: str | None


class ConditionWriter:
    """Writes beside the loop. What cannot be written is logged, and said again after the next attempt."""

    def __init__(
        self,
        planner: Planner,
        pods: PodsNow,
        nominations: Nominations,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._planner = planner
        self._pods = pods
        self._nominations = nominations
        self._spawn = spawn
        self._line: OrderedDict[str, _Note] = OrderedDict()
        """By uid, as all below: pods whose turn has not come."""
        self._writing: dict[str, asyncio.Task[None]] = {}
        self._afterwards: dict[str, _Note] = {}
        """What was said of pods while something was being written about them."""

    def write(self, pod: Pod, condition: PodCondition, nominated_node: str | None) -> None:
        """Has it written some time soon; see `Planner.patch_status`."""
        uid = pod.uid
        notes = self._afterwards if uid in self._writing else self._line
        before = notes.get(uid)
        if before is not None and nominated_node is None:
            nominated_node = before.nominated_node
        notes[uid] = _Note(pod, condition, nominated_node)
        self._start()

    async def settle(self, pod: Pod) -> None:
        """The pod has got a node: what is not being written yet will not be. Returns when nothing is, so that
        no earlier word can overwrite what the API server notes when the pod is bound."""
        self._line.pop(pod.uid, None)
        self._afterwards.pop(pod.uid, None)
        writing = self._writing.get(pod.uid)
        if writing is not None:
            await asyncio.wait((writing,))

    def _start(self) -> None:
        while self._line and len(self._writing) < AT_ONCE:
            uid, note = self._line.popitem(last=False)
            self._writing[uid] = self._spawn(self._write(uid, note))

    async def _write(self, uid: str, note: _Note) -> None:
        try:
            await self._write_one(note)
        finally:
            del self._writing[uid]
        later = self._afterwards.pop(uid, None)
        if later is not None:
            self._line[uid] = later
        self._start()

    async def _write_one(self, note: _Note) -> None:
        """Compared with the pod as it is by now, most of what is said again needs no writing."""
        pod = self._pods.get(note.pod.key)
        if pod is None or pod.uid != note.pod.uid or pod.node_name:
            return
        promised = note.nominated_node
        if promised:  # it may have been withdrawn since
            promised = self._nominations.node_of(pod.uid) or ""
        try:
            await self._planner.patch_status(pod, condition=note.condition, nominated_node=promised)
        except Exception as problem:
            log.warning("cannot write the condition of %s: %s", pod.key, problem)
