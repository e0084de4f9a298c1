"""A write side in memory: what plugins write arrives in the cluster, as if an API server had taken it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from stowplan.cluster import Cluster
from stowplan.framework.handle import Host
from stowplan.framework.points import points_of
from stowplan.framework.profile import Profile, ProfilePlan
from stowplan.framework.registry import register
from stowplan.objects import Pod, ResourceClaim
from stowplan.objects.decode import decode_object
from stowplan.plugins.dynamicresources.plugin import DynamicResources, DynamicResourcesArgs


class Conflict(Exception):  # noqa: N818 - as a client names it
    """The object is of another version than the writer believes."""

    code = 409


class Server:
    """Claims as JSON, with versions. `told` says whether the cluster hears of writes at once."""

    def __init__(self, cluster: Cluster, *, told: bool = True) -> None:
        self.cluster = cluster
        self.told = told
        self.writes: list[str] = []
        self.expected: list[tuple[str | None, str | None]] = []
        """Which claim each patch was meant for: uid and resourceVersion."""
        self.deleted: list[str] = []
        self.pod_patches: list[Mapping[str, Any]] = []
        self.now = 1_700_000_000.0
        self._version = 100
        self._finalizers: dict[str, list[str]] = {}
        self._current: dict[str, ResourceClaim] = {one.key: one for one in cluster.resource_claims}
        self._work: list[Coroutine[Any, Any, None]] = []

    def plugin(self, **args: Any) -> DynamicResources:
        """The plugin with this write side."""
        given = msgspec.structs.replace(DynamicResourcesArgs(), **args)
        host = Host(
            self.cluster,
            client=self,
            now=lambda: self.now,
            later=self._work.append,
            sleep=self.sleep,
        )
        name = DynamicResources.name
        plan = ProfilePlan(points=dict.fromkeys(points_of(DynamicResources), (name,)), args={name: given})
        plugin = Profile(plan, register([DynamicResources]), host).plugins[name]
        assert isinstance(plugin, DynamicResources)
        return plugin

    def claim(self, name: str) -> ResourceClaim:
        return self._current[f"default/{name}"]

    def finalizers(self, name: str) -> list[str]:
        return self._finalizers.get(f"default/{name}", [])

    def change(self, claim: ResourceClaim) -> None:
        """Somebody else changes a claim."""
        self._store(claim)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    def work(self) -> None:
        """Does what was put off."""
        while self._work:
            asyncio.run(self._work.pop(0))

    # The client

    async def bind(self, pod: Pod, node_name: str) -> None:
        raise NotImplementedError

    async def update(self, obj: Any, *, subresource: str = "") -> Any:
        raise NotImplementedError

    async def create(self, obj: Any) -> Any:
        metadata = obj["metadata"]
        metadata = {**metadata, "name": f"{metadata['generateName']}x1", "uid": f"made-{self._version}"}
        self.writes.append("create")
        return self._store(_decode({**obj, "metadata": metadata}))

    async def delete(self, obj: Any) -> None:
        self.deleted.append(obj.name)
        self.cluster.remove(self._current.pop(obj.key))

    async def patch(self, obj: Any, patch: Mapping[str, Any], *, subresource: str = "") -> Any:
        self.writes.append(f"patch {subresource}".strip())
        if isinstance(obj, Pod):
            self.pod_patches.append(patch)
            return obj
        current = self._current[obj.key]
        metadata = patch.get("metadata", {})
        self.expected.append((metadata.get("uid"), metadata.get("resourceVersion")))
        if metadata.get("uid", current.uid) != current.uid:
            raise Conflict
        if metadata.get("resourceVersion", current.resource_version) != current.resource_version:
            raise Conflict
        known = self._finalizers.setdefault(obj.key, [])
        known += [one for one in metadata.get("finalizers", []) if one not in known]
        for gone in metadata.get("$deleteFromPrimitiveList/finalizers", []):
            if gone in known:
                known.remove(gone)
        status = _merge(msgspec.to_builtins(current.status, enc_hook=_text), patch.get("status", {}))
        return self._store(msgspec.structs.replace(current, status=_decode({"status": status}).status))

    def _store(self, claim: ResourceClaim) -> ResourceClaim:
        self._version += 1
        claim = msgspec.structs.replace(claim, resource_version=str(self._version))
        self._current[claim.key] = claim
        if self.told:
            self.cluster.add(claim)
        return claim


def _text(moment: Any) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat()


def _decode(plain: Mapping[str, Any]) -> ResourceClaim:
    made = decode_object(
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {}, **plain}
    )
    assert isinstance(made, ResourceClaim)
    return made


def _merge(status: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A strategic merge of the status of a claim: `reservedFor` is merged by uid."""
    merged = {**status, **{key: value for key, value in patch.items() if key != "reservedFor"}}
    users = {one["uid"]: one for one in status.get("reservedFor", ())}
    for one in patch.get("reservedFor", ()):
        if one.get("$patch") == "delete":
            users.pop(one["uid"], None)
        else:
            users[one["uid"]] = one
    merged["reservedFor"] = list(users.values())
    return {key: value for key, value in merged.items() if value is not None}
