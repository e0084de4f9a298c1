"""Where objects live in the API: the paths of kinds, namespaces and names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from stowplan.objects import KubeObject, ObjectKind, find_kind, known_kinds


def plural(kind: str) -> str:
    """The name of a kind in paths: `StorageClass` is `storageclasses`."""
    lower = kind.lower()
    if lower.endswith(("s", "x", "ch", "sh")):
        return lower + "es"
    if lower.endswith("y") and lower[-2:-1] not in "aeiou":
        return lower[:-1] + "ies"
    return lower + "s"


@lru_cache(maxsize=512)
def collection_path(api_version: str, resource: str, namespace: str = "") -> str:
    """The path of all objects of a resource, in one namespace or in all."""
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    inside = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{root}{inside}/{resource}"


def kind_path(kind: ObjectKind, namespace: str = "") -> str:
    """The path of all objects of a kind, in one namespace or in all."""
    return collection_path(kind.api_version, plural(kind.name), namespace)


@lru_cache(maxsize=64)
def kind_of_record(record: type[KubeObject]) -> ObjectKind:
    """The kind whose objects this record holds."""
    for kind in known_kinds():
        if kind.record is record:
            return kind
    raise TypeError(f"{record.__name__} is not a kind of object that was registered")


def object_path(obj: Any, subresource: str = "") -> str:
    """The path of one object, given as a record or as plain data."""
    if isinstance(obj, KubeObject):
        kind = kind_of_record(type(obj))
        collection = kind_path(kind, obj.namespace)
        name = obj.name
    else:
        collection = manifest_collection(obj)
        name = obj["metadata"].get("name", "")
    if not name:
        raise ValueError(f"an object in {collection} without a name cannot be addressed")
    path = f"{collection}/{quote(name, safe='')}"
    return f"{path}/{subresource}" if subresource else path


def manifest_collection(manifest: Mapping[str, Any]) -> str:
    """The path to create an object at."""
    try:
        api_version, kind = manifest["apiVersion"], manifest["kind"]
        namespace = manifest["metadata"].get("namespace", "")
    except (KeyError, TypeError, AttributeError):
        raise ValueError("an object needs apiVersion, kind and metadata to be sent") from None
    return collection_path(api_version, plural(kind), namespace)


def describe(obj: Any) -> str:
    """Kind, namespace and name, for messages."""
    if isinstance(obj, KubeObject):
        return f"{type(obj).__name__} {obj.key}"
    metadata = obj.get("metadata", {})
    name = metadata.get("name") or metadata.get("generateName", "")
    return f"{obj.get('kind', '')} {metadata.get('namespace', '')}/{name}"


def kind_of_manifest(manifest: Mapping[str, Any]) -> ObjectKind | None:
    """The kind of plain data, if it is one that is known."""
    return find_kind(str(manifest.get("kind", "")), str(manifest.get("apiVersion", "")))
