"""Node labels as columns of small numbers, made when a key is first asked for.

A selector is then evaluated once per distinct value instead of once per node.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stowplan.cluster.columns import Mask, grown, read_only

IdColumn = NDArray[np.int32]
MISSING = -1


class LabelColumn:
    """One label key: the id of every row's value, -1 where the node has no such label."""

    __slots__ = ("_ids", "_rows", "_shown", "_values", "key")

    def __init__(self, key: str, capacity: int) -> None:
        self.key = key
        self._ids: dict[str, int] = {}
        self._values: list[str] = []
        self._rows: IdColumn = np.full(capacity, MISSING, np.int32)
        self._shown = read_only(self._rows)

    def ids(self, size: int) -> IdColumn:
        return self._shown[:size]

    @property
    def values(self) -> list[str]:
        """The value of every id; ids are never reused, so a value may have no row any more."""
        return self._values

    def id_of(self, value: str) -> int:
        """The id of a value, -2 (equal to no row) if no node ever had it."""
        return self._ids.get(value, -2)

    def set(self, row: int, value: str | None) -> None:
        if value is None:
            self._rows[row] = MISSING
            return
        found = self._ids.get(value)
        if found is None:
            found = self._ids[value] = len(self._values)
            self._values.append(value)
        self._rows[row] = found

    def grow(self, capacity: int) -> None:
        old = len(self._rows)
        self._rows = grown(self._rows, capacity).astype(np.int32)
        self._rows[old:] = MISSING
        self._shown = read_only(self._rows)

    def where(self, size: int, accepts: Callable[[str | None], bool]) -> Mask:
        """The rows whose value (None when missing) is accepted, asking once per distinct value."""
        lookup = np.fromiter(
            (accepts(value) for value in (*self._values, None)), np.bool_, len(self._values) + 1
        )
        return lookup[self._rows[:size]]

    def where_in(self, size: int, values: tuple[str, ...]) -> Mask:
        """The rows whose value is one of `values`: the common case, in time independent of the number
        of distinct values."""
        rows = self._rows[:size]
        if len(values) == 1:
            return np.equal(rows, self.id_of(values[0]))
        return np.isin(rows, [self.id_of(value) for value in values])
