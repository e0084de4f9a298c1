"""Plain-text tables, as wide as the terminal: the last column wraps, the others never do, and titles are
broken between their words before a table gets wider."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Sequence

_GAP = "  "
_NARROWEST_LAST = 30
_BETWEEN_WORDS = re.compile(r" |(?<=[a-z])(?=[A-Z])")


def render_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None = None) -> str:
    """Columns are as wide as their widest cell. Without a terminal (a pipe, a log) it is 120 wide, or more
    where titles need it: they stay whole there, for programs that look for them."""
    terminal = width or shutil.get_terminal_size((0, 0)).columns
    width = width or (max(terminal, 80) if terminal else 120)
    titles = [[title] for title in header]
    *widths, last = _widths(titles, rows)
    if terminal and _wide([*widths, min(last, _NARROWEST_LAST)]) > width:
        titles = [_BETWEEN_WORDS.split(title) for title in header]
        *widths, last = _widths(titles, rows)
    height = max(map(len, titles))
    lines = [*zip(*([""] * (height - len(words)) + words for words in titles), strict=True)]
    room = max(width - _wide([*widths, 0]), _NARROWEST_LAST)
    for *cells, text in rows:
        wrapped = textwrap.wrap(text, room, break_on_hyphens=False) or [""]
        lines.append((*cells, wrapped[0]))
        lines += [(*[""] * len(cells), more) for more in wrapped[1:]]
    return "\n".join(_GAP.join(map(str.ljust, line, [*widths, 0])).rstrip() for line in lines)


def _widths(titles: Sequence[Sequence[str]], rows: Sequence[Sequence[str]]) -> list[int]:
    """How wide the columns are if nothing is wrapped."""
    columns = zip(*rows, strict=True) if rows else [()] * len(titles)
    return [max(map(len, (*words, *cells))) for words, cells in zip(titles, columns, strict=True)]


def _wide(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)
