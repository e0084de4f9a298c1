"""Which nodes hold which container image, and how large it is."""

from __future__ import annotations

from collections.abc import Iterable

from stowplan.objects import Node


class ImageState:
    """An image name: the rows that hold it, and its size as the first of them reported it. When others report
    other sizes, that changes nothing as long as anybody holds it; as upstream has it."""

    __slots__ = ("rows", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.rows: dict[int, None] = {}


class ImageIndex:
    """Image states by name, kept up to date as nodes come, change and go."""

    def __init__(self) -> None:
        self._images: dict[str, ImageState] = {}

    def __len__(self) -> int:
        return len(self._images)

    def get(self, name: str) -> ImageState | None:
        return self._images.get(name)

    def replace(self, row: int, before: Node | None, after: Node | None) -> Iterable[int]:
        """The node of a row changed; returns the other rows whose image counts changed by that."""
        old = _names(before)
        new = _names(after)
        touched: dict[int, None] = {}
        for name in old.keys() - new.keys():
            state = self._images[name]
            del state.rows[row]
            touched.update(state.rows)
            if not state.rows:
                del self._images[name]
        for name in new.keys() & old.keys():
            state = self._images[name]
            if len(state.rows) == 1:
                state.size = new[name]
        for name in new.keys() - old.keys():
            state = self._images.setdefault(name, ImageState(new[name]))
            touched.update(state.rows)
            state.rows[row] = None
        touched.pop(row, None)
        return touched


def _names(node: Node | None) -> dict[str, int]:
    """The sizes of a node's images by name; of a name that is there twice the first counts."""
    if node is None:
        return {}
    images = reversed(node.status.images)
    return {name: image.size_bytes for image in images for name in image.names}
