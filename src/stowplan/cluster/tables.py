"""Objects that are looked up rather than counted: claims, volumes, services, budgets, …"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar


class Named(Protocol):
    """What a table needs to know of an object."""

    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...


T = TypeVar("T", bound=Named)

_KEEP = 4096


def object_key(obj: Named) -> str:
    """`namespace/name`, or just the name of an object that has no namespace."""
    return f"{obj.namespace}/{obj.name}" if obj.namespace else obj.name


class ObjectTable(Generic[T]):
    """All objects of one kind by key; `version` grows by one with every change, for caches to compare."""

    __slots__ = ("_changed", "_objects", "_spaces", "version")

    def __init__(self) -> None:
        self._objects: dict[str, T] = {}
        self._changed: list[str] = []
        self._spaces: dict[str, dict[str, T]] = {}
        self.version = 0

    def get(self, key: str) -> T | None:
        return self._objects.get(key)

    def put(self, obj: T) -> T | None:
        """Stores the object and returns the one it replaces."""
        key = object_key(obj)
        before = self._objects.get(key)
        self._objects[key] = obj
        self._spaces.setdefault(obj.namespace, {})[key] = obj
        self._note(key)
        return before

    def pop(self, key: str) -> T | None:
        before = self._objects.pop(key, None)
        if before is not None:
            space = self._spaces[before.namespace]
            del space[key]
            if not space:
                del self._spaces[before.namespace]
            self._note(key)
        return before

    def _note(self, key: str) -> None:
        self.version += 1
        self._changed.append(key)
        if len(self._changed) > 2 * _KEEP:
            del self._changed[:_KEEP]

    def changed_since(self, version: int) -> set[str] | None:
        """The keys of what was stored or removed since the table had this version, None when that is too
        long ago: only the newest few thousand changes are remembered."""
        behind = self.version - version
        if behind > len(self._changed):
            return None
        return set(self._changed[-behind:]) if behind else set()

    def in_namespace(self, namespace: str) -> Iterator[T]:
        """The objects of one namespace."""
        return iter(self._spaces.get(namespace, {}).values())

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: object) -> bool:
        return key in self._objects
