"""Carries out on a real API server what the engine decided."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from stowplan.engine.planner import PodCondition
from stowplan.kube.client import ApiClient
from stowplan.kube.errors import ApiError, UncertainError
from stowplan.kube.recorder import Recorder
from stowplan.kube.resources import kind_of_record
from stowplan.kube.times import whole_time
from stowplan.objects import Pod

_DELAYS = (0.01, 0.05, 0.25)
_WORTH_REPEATING = frozenset({0, 409, 500, 503})


class KubePlanner:
    """The engine's `Planner`: the client's requests, made safe against answers that do not come."""

    def __init__(
        self,
        client: ApiClient,
        recorder: Recorder,
        *,
        wall_clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._now = wall_clock
        self._sleep = sleep
        self._pods = kind_of_record(Pod)
        self.record = recorder.record
        self.update = client.update
        self.create = client.create
        self.delete = client.delete
        self.patch = client.patch

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Binds the pod. When the connection is cut in between, the pod itself tells what came of it; only
        when that cannot be found out either, the UncertainError is passed on."""
        try:
            await self._client.bind(pod, node_name)
        except UncertainError as doubt:
            try:
                node = await self.placed_on(pod)
            except ApiError:
                raise doubt from None
            if node == node_name:
                return
            if node is None:
                raise ApiError(
                    404, "NotFound", f'pods "{pod.name}" not found', request=doubt.request
                ) from None
            if node:
                message = f"pod {pod.name} is already assigned to node {node!r}"
                raise ApiError(409, "Conflict", message, request=doubt.request) from None
            raise

    async def placed_on(self, pod: Pod) -> str | None:
        """The node that the pod has by now, "" for none, None when the pod is gone."""
        try:
            now = await self._client.get(self._pods, pod.name, pod.namespace)
        except ApiError as error:
            if error.is_not_found:
                return None
            raise
        return now.node_name if isinstance(now, Pod) and now.uid == pod.uid else None

    async def patch_status(
        self, pod: Pod, *, condition: PodCondition | None = None, nominated_node: str | None = None
    ) -> None:
        """Writes a condition and/or the nominated node ("" clears it); nothing if that changes nothing."""
        status: dict[str, Any] = {}
        if condition is not None and (changed := self._changed(pod, condition)):
            status["conditions"] = [changed]
        if nominated_node is not None and nominated_node != pod.status.nominated_node_name:
            status["nominatedNodeName"] = nominated_node or None
        if not status:
            return
        # The uid makes sure that it is this pod and no later one of the same name.
        patch = {"metadata": {"uid": pod.uid}, "status": status}
        await self._repeat(lambda: self._client.patch(pod, patch, subresource="status"))

    def _changed(self, pod: Pod, condition: PodCondition) -> dict[str, Any]:
        """The condition as it is written; nothing when the pod has it already."""
        new: dict[str, Any] = {**condition._asdict(), "observedGeneration": pod.generation}
        old = next((each for each in pod.status.conditions if each.type == condition.type), None)
        if old is None or old.status != condition.status:
            new["lastTransitionTime"] = whole_time(self._now())
        elif (old.reason, old.message, old.observed_generation) == (
            condition.reason,
            condition.message,
            pod.generation,
        ):
            return {}
        return new

    async def evict(self, pod: Pod) -> None:
        """Deletes the pod, if it is still the same one (by uid). A pod that is gone is no error."""
        try:
            await self._repeat(lambda: self._client.delete(pod), but_not=409)
        except ApiError as error:
            if not (error.is_not_found or error.is_conflict):
                raise

    async def _repeat(self, attempt: Callable[[], Awaitable[Any]], but_not: int = -1) -> None:
        """For what does no harm when done twice."""
        for delay in (*_DELAYS, None):
            try:
                await attempt()
                return
            except ApiError as error:
                if delay is None or error.status == but_not or error.status not in _WORTH_REPEATING:
                    raise
            await self._sleep(delay)
