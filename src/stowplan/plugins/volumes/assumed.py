"""Objects as they will be once what was decided is written: an overlay over a table of the cluster.

An assumed object counts until the table gets a newer version of the object, or until it is restored.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from stowplan.cluster.tables import Named, ObjectTable, object_key


class Versioned(Named, Protocol):
    """What is assumed has a version by which it is told from what the API server has."""

    @property
    def resource_version(self) -> str: ...


T = TypeVar("T", bound=Versioned)


class Assumed(Generic[T]):
    """A table, with the assumed objects in place of those they were made from."""

    def __init__(self, table: ObjectTable[T]) -> None:
        self.table = table
        self.touched: set[str] = set()
        """Keys that were assumed or restored; whoever keeps something derived from them clears it."""
        self._assumed: dict[str, tuple[T, T]] = {}

    def get(self, key: str) -> T | None:
        """The object as decided, or else as the API server has it."""
        stored = self.table.get(key)
        if key not in self._assumed:
            return stored
        base, assumed = self._assumed[key]
        if stored is not None and same_version(stored, base):
            return assumed
        del self._assumed[key]
        return stored

    def assume(self, base: T, changed: T) -> None:
        """From now on, `changed` is what became of `base`."""
        key = object_key(base)
        self._assumed[key] = (base, changed)
        self.touched.add(key)

    def restore(self, changed: T) -> None:
        """Takes back what was assumed, unless something else has been assumed since."""
        key = object_key(changed)
        _, assumed = self._assumed.get(key, (None, None))
        if assumed is changed:
            del self._assumed[key]
            self.touched.add(key)


def same_version(stored: Versioned, base: Versioned) -> bool:
    """Whether the stored object is still the one that was looked at, be it read again from the server."""
    return stored is base or (
        stored.resource_version != "" and stored.resource_version == base.resource_version
    )
