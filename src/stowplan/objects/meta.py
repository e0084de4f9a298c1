"""What every kind of object has: metadata, labels, and the records that select by labels."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn
from weakref import WeakValueDictionary

from stowplan.objects.base import Int64, Record


class Time(float):
    """A point in time, in seconds since the epoch; in JSON an RFC 3339 text."""

    __slots__ = ()


@lru_cache(maxsize=4096)
def parse_time(text: str) -> Time:
    """Read an RFC 3339 time. A time without a zone is no point in time, so it is refused."""
    if len(text) > 10 and text[10] in "Tt":
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            moment = None
        if moment is not None and moment.tzinfo is not None:
            return Time(moment.timestamp())
    raise ValueError(f"{text!r} is not a time such as 2024-05-01T10:00:00Z")


class Labels(dict[str, str]):
    """Labels that may be shared and used as a cache key.

    Equal labels made by `intern_labels` are one object, so identity stands for content.
    """

    __slots__ = ("__weakref__",)
    __hash__ = object.__hash__  # type: ignore[assignment]

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(
            "labels are shared between objects and cannot be changed; make new ones with intern_labels"
        )

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return intern_labels, (dict(self),)


_interned: WeakValueDictionary[frozenset[tuple[str, str]], Labels] = WeakValueDictionary()
NO_LABELS = Labels()


def intern_labels(labels: Mapping[str, str]) -> Labels:
    """The one `Labels` object with this content."""
    if type(labels) is Labels:
        return labels
    if not labels:
        return NO_LABELS
    content = frozenset(labels.items())
    known = _interned.get(content)
    if known is None:
        known = _interned[content] = Labels(labels)
    return known


class OwnerReference(Record, frozen=True):
    """Who made an object, and whether that owner manages it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(Record, frozen=True):
    """Metadata as it is in JSON. Objects carry its fields directly; see `KubeObject`."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    owner_references: tuple[OwnerReference, ...] = ()


class KubeObject(Record, frozen=True):
    """A whole object. Its metadata stands beside its other fields, because it is read so often."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: Labels = NO_LABELS
    annotations: Mapping[str, str] = {}
    resource_version: str = ""
    generation: int = 0
    created: float = 0.0
    deleted: float | None = None
    owners: tuple[OwnerReference, ...] = ()

    @property
    def key(self) -> str:
        """`namespace/name`, or the name of an object that lives in no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object."""
        for owner in self.owners:
            if owner.controller:
                return owner
        return None

    @property
    def terminating(self) -> bool:
        """Whether deletion was asked for."""
        return self.deleted is not None


class LabelSelectorRequirement(Record, frozen=True):
    """A condition on one label: In, NotIn, Exists or DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Record, frozen=True):
    """Conditions that must all hold. Absent (None) selects nothing, an empty one selects everything."""

    match_labels: Mapping[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelectorRequirement(Record, frozen=True):
    """A condition on a node's label or field: In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Record, frozen=True):
    """Conditions that must all hold; a term without any selects no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Record, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class TypedReference(Record, frozen=True):
    """A pointer to another object."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Condition(Record, frozen=True):
    """One observed condition of an object: status is True, False or Unknown."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: Int64 = 0


def decode_time(kind: type, value: Any) -> Any:
    """The decoding hook of msgspec for the types of ours that it does not know."""
    if kind is Time and isinstance(value, str):
        return parse_time(value)
    # msgspec adds the path to the field to a ValueError, but not to an error of its own kind.
    raise ValueError(f"Expected a time, got {type(value).__name__}")
