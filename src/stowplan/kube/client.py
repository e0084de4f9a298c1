"""Typed requests to an API server.

A request that the server turned away for now (429, or 5xx with Retry-After) is sent again after the time
it asked for. A read whose connection was cut is sent again too. A write whose answer did not come is never
sent again here: UncertainError tells the caller to look first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

import stowplan
from stowplan.kube.access import Access
from stowplan.kube.errors import ApiError, UncertainError, UnreachableError, status_error
from stowplan.kube.ratelimit import TokenBucket
from stowplan.kube.resources import collection_path, kind_path, manifest_collection, object_path
from stowplan.kube.transport import Answer, DataSink, Transport
from stowplan.objects import KubeObject, ListPage, ObjectKind, Pod, decode_list, decode_object, find_kind

USER_AGENT = f"stowplan/{stowplan.__version__}"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
_JSON = "application/json"
_READS = frozenset({"GET", "HEAD"})
_TIMEOUT = 30.0
_MOST_RETRIES = 10
_PAUSE_AFTER_CUT = 0.1
_MOST_CUTS = 3
_NO_BODY = b""

_encoder = msgspec.json.Encoder()


class _Target(msgspec.Struct, gc=False):
    name: str
    kind: str = "Node"
    apiVersion: str = "v1"  # noqa: N815 -- as the API has it


class _BindingMeta(msgspec.Struct, gc=False):
    name: str
    namespace: str
    uid: str


class _Binding(msgspec.Struct, gc=False):
    metadata: _BindingMeta
    target: _Target
    apiVersion: str = "v1"  # noqa: N815
    kind: str = "Binding"


class ApiClient:
    """One user of one server, with its own connections and its own rate. For one event loop."""

    def __init__(
        self,
        access: Access,
        *,
        qps: float = -1.0,
        burst: int = 100,
        connections: int = 32,
        timeout: float = _TIMEOUT,
        user_agent: str = USER_AGENT,
        transport: Transport | None = None,
        held_up: Callable[[str, float], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`held_up` is told the method of each request and for how long its turn had not come yet."""
        self._transport = transport or access.transport(connections=connections)
        self._credentials = access.credentials
        self._bucket = TokenBucket(qps, burst, clock=clock, sleep=sleep)
        self._renewing = asyncio.Lock()
        self._renewals = 0
        self._timeout = timeout
        self._connections = connections
        self._under_way = 0
        self._held_up = held_up
        self._clock = clock
        self._sleep = sleep
        self._fixed = access.header_lines(user_agent)
        self._typed = {
            kind: self._fixed + f"Content-Type: {kind}\r\n".encode()
            for kind in (_JSON, STRATEGIC_MERGE, MERGE)
        }

    @property
    def crowded(self) -> bool:
        """Whether so much is under way that what is less important had better wait."""
        return self._under_way > self._connections // 2

    async def close(self) -> None:
        """Closes the connections; requests under way fail."""
        await self._transport.close()

    # Any request

    async def request(
        self,
        method: str,
        target: str,
        body: bytes = _NO_BODY,
        *,
        content_type: str = _JSON,
        timeout: float | None = None,
    ) -> Answer:
        """Sends a request until it is answered; an ApiError for anything but success."""
        began = self._clock()
        if not self._bucket.take():
            await self._bucket.wait()
        if self._held_up is not None:
            self._held_up(method, self._clock() - began)
        self._under_way += 1
        try:
            return await self._until_answered(method, target, body, content_type, timeout or self._timeout)
        finally:
            self._under_way -= 1

    async def _until_answered(
        self, method: str, target: str, body: bytes, content_type: str, timeout: float
    ) -> Answer:
        fixed = self._typed[content_type] if body else self._fixed
        refused = cuts = 0
        while True:
            authorization, renewals = await self._authorization(), self._renewals
            try:
                answer = await self._transport.send(
                    method, target, fixed + authorization, body, timeout=timeout
                )
            except (UnreachableError, UncertainError):
                cuts += 1
                if method not in _READS or cuts >= _MOST_CUTS:
                    raise
                await self._sleep(cuts * _PAUSE_AFTER_CUT)
                continue
            if answer.status < 400:
                return answer
            if answer.status == 401 and not refused and await self._somebody_else(authorization, renewals):
                refused += 1
                continue
            problem = self._error(answer, method, target)
            if problem.retry_after is None or not (problem.status == 429 or problem.status >= 500):
                raise problem
            refused += 1
            if refused > _MOST_RETRIES:
                raise problem
            await self._sleep(problem.retry_after)

    async def stream(self, target: str, on_data: DataSink, *, idle_timeout: float) -> None:
        """Feeds the body of a GET to `on_data` until its end; an ApiError for anything but success."""
        authorization, renewals = await self._authorization(), self._renewals
        answer = await self._transport.stream(
            "GET",
            target,
            self._fixed + authorization,
            on_data,
            timeout=self._timeout,
            idle_timeout=idle_timeout,
        )
        if answer.status == 401:
            await self._somebody_else(
                authorization, renewals
            )  # for the next attempt, which the caller makes anyway
        if answer.status >= 400:
            raise self._error(answer, "GET", target)

    async def _authorization(self) -> bytes:
        authorization = self._credentials.current()
        if authorization is None:
            await self._credentials.renew()
            authorization = self._credentials.current()
        return authorization or b""

    async def _somebody_else(self, rejected: bytes, renewals: int) -> bool:
        """Whether there may be other credentials than those that the server did not accept. Of many requests
        that were refused together, the first has them renewed."""
        async with self._renewing:
            if self._renewals == renewals and self._credentials.current() == rejected:
                self._renewals += 1
                self._credentials.reject()
                await self._credentials.renew()
                self._transport.renew()  # a certificate was shown long ago, and there may be another by now
        return self._credentials.certificate() is not None or self._credentials.current() != rejected

    def _error(self, answer: Answer, method: str, target: str) -> ApiError:
        return status_error(
            answer.status,
            answer.body,
            request=f"{method} {target.partition('?')[0]}",
            retry_after=answer.header("Retry-After"),
        )

    # Reading

    async def list_page(
        self,
        kind: ObjectKind,
        *,
        namespace: str = "",
        limit: int = 500,
        continue_token: str = "",
        resource_version: str = "",
        field_selector: str = "",
        label_selector: str = "",
    ) -> ListPage:
        """One page of all objects of a kind; the page tells how to get the next."""
        parameters = {
            "limit": str(limit) if limit else "",
            "continue": continue_token,
            "resourceVersion": resource_version,
            "fieldSelector": field_selector,
            "labelSelector": label_selector,
        }
        answer = await self.request("GET", with_parameters(kind_path(kind, namespace), parameters))
        return decode_list(answer.body)

    async def get(self, kind: ObjectKind, name: str, namespace: str = "") -> KubeObject:
        """One object."""
        answer = await self.request("GET", f"{kind_path(kind, namespace)}/{quote(name, safe='')}")
        return kind.decode(answer.body)

    async def get_plain(self, target: str) -> dict[str, Any]:
        """Whatever JSON is at a path: an object with all its fields, a version, a discovery document."""
        answer = await self.request("GET", target)
        plain: dict[str, Any] = msgspec.json.decode(answer.body)
        return plain

    # Writing (the contract's `Client`)

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Places a pod. The uid makes sure that it is this pod and no later one of the same name."""
        body = _Binding(_BindingMeta(pod.name, pod.namespace, pod.uid), _Target(node_name))
        target = f"{collection_path('v1', 'pods', pod.namespace)}/{quote(pod.name, safe='')}/binding"
        await self.request("POST", target, _encoder.encode(body))

    async def create(self, obj: Mapping[str, Any]) -> Any:
        """Creates an object from plain data, and returns what came to be: a record if its kind is known."""
        return _typed(await self.request("POST", manifest_collection(_plain(obj)), _encoder.encode(obj)))

    async def update(self, obj: Mapping[str, Any], *, subresource: str = "") -> Any:
        """Replaces an object by plain data, which must be the whole object."""
        return _typed(await self.request("PUT", object_path(_plain(obj), subresource), _encoder.encode(obj)))

    async def patch(
        self,
        obj: Any,
        patch: Mapping[str, Any],
        *,
        subresource: str = "",
        content_type: str = STRATEGIC_MERGE,
    ) -> Any:
        """Changes parts of an object. Kinds from CRDs know no strategic merge: use `MERGE` for them."""
        target = object_path(obj, subresource)
        return _typed(await self.request("PATCH", target, _encoder.encode(patch), content_type=content_type))

    async def patch_status(self, obj: Any, patch: Mapping[str, Any]) -> None:
        """Changes parts of an object's status. What came to be is not read: it comes by the watch too."""
        target = object_path(obj, "status")
        await self.request("PATCH", target, _encoder.encode(patch), content_type=STRATEGIC_MERGE)

    async def delete(self, obj: Any, *, grace_period: int | None = None) -> None:
        """Deletes an object, if it still is the one with this uid."""
        uid = obj.uid if isinstance(obj, KubeObject) else obj["metadata"].get("uid", "")
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_period is not None:
            options["gracePeriodSeconds"] = grace_period
        await self.request("DELETE", object_path(obj), _encoder.encode(options))


def with_parameters(path: str, parameters: Mapping[str, str]) -> str:
    """A path with those query parameters that have a value."""
    query = urlencode({name: value for name, value in parameters.items() if value})
    return f"{path}?{query}" if query else path


def _plain(obj: Any) -> Mapping[str, Any]:
    if isinstance(obj, Mapping):
        return obj
    raise TypeError(
        f"{type(obj).__name__} holds only what scheduling reads, so sending it would lose the rest: "
        "patch the object, or send it whole as plain data"
    )


class _Head(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""


_head_decoder = msgspec.json.Decoder(_Head)


def _typed(answer: Answer) -> Any:
    head = _head_decoder.decode(answer.body)
    if find_kind(head.kind, head.api_version) is not None:
        return decode_object(answer.body)
    return msgspec.json.decode(answer.body)
