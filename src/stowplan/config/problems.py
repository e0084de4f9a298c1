"""What can be wrong with a configuration, and how it is told.

All problems are collected before anything is reported: whoever mends a file wants to see all of them at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol


class Problem(NamedTuple):
    """Something wrong at a field, given as a path: `profiles[0].plugins.score`. "" is the file as a whole."""

    path: str
    message: str


class Locator(Protocol):
    """Knows the file that a configuration came from."""

    @property
    def name(self) -> str: ...

    def line(self, path: str) -> int | None:
        """The line of a field, or of the nearest field around it that stands in the file."""
        ...


class ConfigError(ValueError):
    """A configuration that cannot be used: every problem with its file, line and field."""

    def __init__(self, problems: Iterable[Problem], locator: Locator | None = None) -> None:
        self.problems: tuple[Problem, ...] = tuple(dict.fromkeys(problems))
        self.lines: tuple[str, ...] = tuple(_told(self.problems, locator))
        super().__init__("\n".join(self.lines))


def _told(problems: Sequence[Problem], locator: Locator | None) -> list[str]:
    if locator is None:
        return [_sentence(problem) for problem in problems]
    placed = [(locator.line(problem.path), problem) for problem in problems]
    placed.sort(key=lambda pair: pair[0] or 0)
    return [f"{locator.name}:{f'{line}:' if line else ''} {_sentence(problem)}" for line, problem in placed]


def _sentence(problem: Problem) -> str:
    return f"{problem.path}: {problem.message}" if problem.path else problem.message


def child(path: str, name: str) -> str:
    """The path of a field inside of what stands at `path`."""
    return f"{path}.{name}" if path else name


def shown(value: object, limit: int = 60) -> str:
    """A value as it may be quoted in a message: JSON, cut where it gets long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= limit else text[: limit - 1] + "…"
