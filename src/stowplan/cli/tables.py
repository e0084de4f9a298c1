"""Plain-text tables, as wide as the terminal: the last column wraps, the others never do."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence

_GAP = "  "
_NARROWEST_LAST = 30


def render_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None = None) -> str:
    """Columns are as wide as their widest cell. Without a terminal (a pipe, a log) it is 120 wide."""
    cells = [header, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header) - 1)]
    room = (
        (width or max(shutil.get_terminal_size((120, 24)).columns, 80))
        - sum(widths)
        - len(_GAP) * len(widths)
    )
    lines = []
    for row in cells:
        wrapped = textwrap.wrap(row[-1], max(room, _NARROWEST_LAST)) or [""]
        first = [cell.ljust(size) for cell, size in zip(row[:-1], widths, strict=True)]
        for number, text in enumerate(wrapped):
            left = first if number == 0 else [" " * size for size in widths]
            lines.append(_GAP.join([*left, text]).rstrip())
    return "\n".join(lines)
