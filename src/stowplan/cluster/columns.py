"""Column types, and the log by which readers learn what changed."""

from __future__ import annotations

from typing import Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

IntColumn: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
ScalarT = TypeVar("ScalarT", bound=np.generic)
T = TypeVar("T")

_KEEP = 4096


class ChangeLog(Generic[T]):
    """What changed (rows, names), in order. A reader keeps its position and asks for what came since.

    Only the newest few thousand entries are kept: a reader further behind is told to look at everything,
    which costs it less than replaying a long list.
    """

    __slots__ = ("_base", "_entries", "position")

    def __init__(self) -> None:
        self._entries: list[T] = []
        self._base = 0
        self.position = 0
        """Where a reader that has seen everything stands."""

    def append(self, entry: T) -> None:
        self._entries.append(entry)
        self.position += 1
        if len(self._entries) > 2 * _KEEP:
            del self._entries[:_KEEP]
            self._base += _KEEP

    def since(self, position: int) -> list[T] | None:
        """What changed since `position` (with repeats), or None when that is too long ago."""
        start = position - self._base
        return self._entries[start:] if start >= 0 else None

    def invalidate(self) -> None:
        """Makes every reader look at everything again."""
        self.position += 1
        self._base = self.position
        self._entries.clear()


def read_only(column: NDArray[ScalarT]) -> NDArray[ScalarT]:
    """The same column, for those who must not write into it: slices of it refuse that, too."""
    view = column.view()
    view.flags.writeable = False
    return view


def grown(column: NDArray[ScalarT], capacity: int) -> NDArray[ScalarT]:
    """The column with room for `capacity` rows (along its last axis), new rows zero."""
    wider = np.zeros((*column.shape[:-1], capacity), column.dtype)
    wider[..., : column.shape[-1]] = column
    return wider
