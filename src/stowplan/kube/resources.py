"""Where objects live in the API: the paths of kinds, namespaces and names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from stowplan import objects
from stowplan.objects import KubeObject, ObjectKind
from stowplan.objects.kinds import plural

kind_of_record = lru_cache(maxsize=64)(objects.kind_of_record)
"""The kind whose objects a record holds, asked for with every event."""


@lru_cache(maxsize=512)
def collection_path(api_version: str, resource: str, namespace: str = "") -> str:
    """The path of all objects of a resource, in one namespace or in all."""
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    inside = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{root}{inside}/{resource}"


def kind_path(kind: ObjectKind, namespace: str = "") -> str:
    """The path of all objects of a kind, in one namespace or in all."""
    return collection_path(kind.api_version, kind.plural, namespace)


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
