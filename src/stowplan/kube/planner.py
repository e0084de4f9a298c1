"""Carries out on a real API server what the engine decided."""

from __future__ import annotations

import asyncio
import random as chance
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from stowplan.engine.planner import PodCondition
from stowplan.kube.backoff import Backoff
from stowplan.kube.client import ApiClient
from stowplan.kube.errors import ApiError, UncertainError
from stowplan.kube.recorder import Recorder
from stowplan.kube.resources import kind_of_record
from stowplan.kube.texts import legible
from stowplan.kube.times import whole_time
from stowplan.objects import Pod

_DELAYS = (0.01, 0.05, 0.25)
_WORTH_REPEATING = frozenset({0, 409, 500, 503})
_FIRST_LOOK = 0.1
_LONGEST_LOOK = 2.0


class KubePlanner:
    """The engine's `Planner`: the client's requests, made safe against answers that do not come."""

    def __init__(
        self,
        client: ApiClient,
        recorder: Recorder,
        *,
        wall_clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = chance.random,
    ) -> None:
        self._client = client
        self._now = wall_clock
        self._sleep = sleep
        self._random = random
        self._pods = kind_of_record(Pod)
        self.record = recorder.record
        self.update = client.update
        self.create = client.create
        self.delete = client.delete
        self.patch = client.patch

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Binds the pod. When the answer leaves open what came of it, the pod itself tells. Until it can be
        asked this does not return, so that its room is given to nobody else."""
        try:
            await self._client.bind(pod, node_name)
        except ApiError as problem:
            if not _leaves_doubt(problem):
                raise
            node = await self._found_on(pod, problem)
            if node == node_name:
                return
            if isinstance(problem, UncertainError):
                raise _told_by_pod(pod, node, problem) from None
            raise

    async def _found_on(self, pod: Pod, doubt: ApiError) -> str | None:
        """See `placed_on`; asks for as long as the API server is out of reach."""
        pauses = Backoff(_FIRST_LOOK, _LONGEST_LOOK, self._random)
        while True:
            try:
                return await self.placed_on(pod)
            except ApiError as error:
                if not error.is_passing:
                    raise doubt from None
            await self._sleep(pauses.next())

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
        """Writes a condition and/or the nominated node ("" clears it); nothing if that changes nothing. A pod
        that is gone is no error."""
        status: dict[str, Any] = {}
        if condition is not None and (changed := self._changed(pod, condition)):
            status["conditions"] = [changed]
        if nominated_node is not None and nominated_node != pod.status.nominated_node_name:
            status["nominatedNodeName"] = nominated_node or None
        if not status:
            return
        # The uid makes sure that it is this pod and no later one of the same name.
        patch = {"metadata": {"uid": pod.uid}, "status": status}
        try:
            await self._repeat(lambda: self._client.patch_status(pod, patch))
        except ApiError as error:
            if not (error.is_not_found or _is_another(error)):
                raise

    def _changed(self, pod: Pod, condition: PodCondition) -> dict[str, Any]:
        """The condition as it is written; nothing when the pod has it already."""
        condition = condition._replace(message=legible(condition.message))
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


def _leaves_doubt(problem: ApiError) -> bool:
    """Whether the binding may have been carried out: no answer came, the server had trouble with etcd, or it
    says "already assigned", which is also what a request sent twice is told of its own success."""
    return isinstance(problem, UncertainError) or problem.is_conflict or problem.status >= 500


def _is_another(problem: ApiError) -> bool:
    """Whether a patch found a later object of the same name: to the API server it looks like an attempt to
    change the uid."""
    return problem.status == HTTPStatus.UNPROCESSABLE_ENTITY and "metadata.uid" in problem.message


def _told_by_pod(pod: Pod, node: str | None, doubt: ApiError) -> ApiError:
    """What the API server would have answered."""
    if node is None:
        return ApiError(404, "NotFound", f'pods "{pod.name}" not found', request=doubt.request)
    if node:
        message = f"pod {pod.name} is already assigned to node {node!r}"
        return ApiError(409, "Conflict", message, request=doubt.request)
    return doubt
