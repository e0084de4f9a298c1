"""From bytes, manifests and lists to records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, cast

import msgspec

from stowplan.objects.base import ObjectError, Record
from stowplan.objects.kinds import (
    MISREAD,
    POD,
    Json,
    ObjectKind,
    Source,
    explain,
    find_kind,
    known_kinds,
    name_in,
)
from stowplan.objects.manifests import load_documents
from stowplan.objects.meta import KubeObject
from stowplan.objects.pod import Pod

KubeObjectT = TypeVar("KubeObjectT", bound=KubeObject)


class _Head(Record, frozen=True):
    kind: str = ""
    api_version: str = ""


class _ListMeta(Record, frozen=True):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _ListWire(Record, frozen=True):
    kind: str = ""
    api_version: str = ""
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


class ListPage(Record, frozen=True):
    """One page of a list. An object that cannot be understood is an error beside the others' items."""

    items: tuple[KubeObject, ...]
    errors: tuple[ObjectError, ...] = ()
    resource_version: str = ""
    continue_token: str = ""
    remaining: int | None = None


_head_decoder = msgspec.json.Decoder(_Head)
_list_decoder = msgspec.json.Decoder(_ListWire)


def decode_pod(source: Source) -> Pod:
    """Read a pod: the fast way for the many."""
    return cast(Pod, POD.decode(source))


def decode_as(record: type[KubeObjectT], source: Source) -> KubeObjectT:
    """Read an object that is known to be of one kind, whatever its `kind` field says."""
    for kind in known_kinds():
        if kind.record is record:
            return cast(KubeObjectT, kind.decode(source))
    raise TypeError(f"{record.__name__} is not a kind of object that was registered")


def decode_object(source: Source) -> KubeObject:
    """Read an object of whatever kind it says it is."""
    return _kind_of(source).decode(source)


def decode_list(source: Json) -> ListPage:
    """Read a List, or a list of one kind such as PodList, whose items need not repeat their kind."""
    try:
        page = _list_decoder.decode(source)
    except MISREAD as error:
        raise ObjectError(f"List: {explain(error)}") from None
    item_kind = page.kind.removesuffix("List")
    kind = find_kind(item_kind, page.api_version) if item_kind else None
    if item_kind and kind is None:
        raise ObjectError(_unknown(page.kind, page.api_version, ""))
    items: list[KubeObject] = []
    errors: list[ObjectError] = []
    for raw in page.items or ():
        try:
            items.append((kind or _kind_of(raw)).decode(raw))
        except ObjectError as error:
            errors.append(error)
    return ListPage(
        items=tuple(items),
        errors=tuple(errors),
        resource_version=page.metadata.resource_version,
        continue_token=page.metadata.continue_,
        remaining=page.metadata.remaining_item_count,
    )


def decode_yaml(text: str | bytes) -> list[KubeObject]:
    """Read manifests: any number of YAML (or JSON) documents, with Lists unfolded."""
    return [decode_object(plain) for plain in plain_objects(text)]


def plain_objects(text: str | bytes) -> Iterator[Mapping[str, Any]]:
    """The same as plain data, which may yet prove to be no object of a known kind."""
    for document in load_documents(text):
        yield from _unfold(document)


def _unfold(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    kind, items = document.get("kind"), document.get("items")
    if not (isinstance(kind, str) and kind.endswith("List") and isinstance(items, list | None)):
        return [document]
    implied = {}
    if kind != "List":
        implied = {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")}
    unfolded = []
    for item in items or []:
        if not isinstance(item, Mapping):
            raise ObjectError(f"{kind}: items: an item is not an object")
        unfolded += _unfold({**implied, **item})
    return unfolded


def _kind_of(source: Source) -> ObjectKind:
    try:
        if isinstance(source, Mapping):
            head = msgspec.convert({k: source.get(k) or "" for k in ("kind", "apiVersion")}, _Head)
        else:
            head = _head_decoder.decode(source)
    except MISREAD as error:
        raise ObjectError(f"Object {name_in(source)}: {explain(error)}") from None
    kind = find_kind(head.kind, head.api_version)
    if kind is None:
        raise ObjectError(_unknown(head.kind, head.api_version, name_in(source)))
    return kind


def _unknown(kind: str, api_version: str, name: str) -> str:
    if not kind:
        return f"Object {name}: kind: is missing"
    where = f" of {api_version}" if api_version else ""
    return f"{kind} {name}".rstrip() + f": kind: {kind}{where} is not a kind of object that is known here"
