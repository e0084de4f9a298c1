"""The text of a configuration file: plain data out of it, and the line of a field when a message needs it.

YAML is read as the scheduler's users know it (YAML 1.1, so `on` is true), JSON as the part of YAML that it
is. Duplicate keys are problems here, because nobody later can see them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from stowplan.config.problems import ConfigError, Problem, child, shown

_MAX_DEPTH: Final = 60
_MAX_VALUES: Final = 200_000
"""Far above any real configuration; below what an alias bomb expands to."""

_PLAIN_FLOAT: Final = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")
"""Numbers for JSON that YAML 1.1 takes for text, because they lack a dot or the sign of the exponent."""

_PATH_STEP: Final = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


class Source:
    """One file: its name, its data and where everything stands."""

    def __init__(self, text: bytes, name: str) -> None:
        self.name = name
        self.problems: list[Problem] = []
        self._values_left = _MAX_VALUES
        self._loader = yaml.CSafeLoader(text)
        try:
            self._root = self._only_document()
            self.data: Any = self._value(self._root, "", 0) if self._root is not None else None
        except yaml.YAMLError as error:
            raise ConfigError([_syntax_problem(error, name)]) from None
        finally:
            self._loader.dispose()

    def line(self, path: str) -> int | None:
        """The line of a field, or of the nearest field around it that stands in the file."""
        if self._root is None:
            return None
        return _line_of(self._root, path)

    def _only_document(self) -> yaml.Node | None:
        """The one document of the file. Those that write many files at once leave empty ones behind it."""
        if not self._loader.check_node():
            return None
        root = self._loader.get_node()
        while self._loader.check_node():
            another = self._loader.get_node()
            assert another is not None
            if not (isinstance(another, yaml.ScalarNode) and another.tag.endswith(":null")):
                line = another.start_mark.line + 1
                message = f"{self.name}:{line}: a second document begins here; a configuration is one"
                raise ConfigError([Problem("", message)])
        return root

    def _value(self, node: yaml.Node, path: str, depth: int) -> Any:
        self._values_left -= 1
        if depth > _MAX_DEPTH or self._values_left < 0:
            raise ConfigError([Problem(path[:200], "the file is nested too deeply, or is too large")], self)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        return self._scalar(node, path)

    def _mapping(self, node: yaml.MappingNode, path: str, depth: int) -> dict[str, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in seen:
                first = _line_of(node, name)
                line = key.start_mark.line + 1
                self.problems.append(
                    Problem(child(path, name), f"stands here twice, in lines {first} and {line}")
                )
            seen.add(name)
        self._loader.flatten_mapping(node)  # takes in what `<<` refers to
        return {
            str(key.value): self._value(value, child(path, str(key.value)), depth + 1)
            for key, value in node.value
        }

    def _scalar(self, node: yaml.ScalarNode, path: str) -> Any:
        text, kind = str(node.value), node.tag.rpartition(":")[2]
        if kind == "str" and not node.style and _PLAIN_FLOAT.fullmatch(text):
            value: Any = float(text)
        elif kind in ("str", "timestamp", "value") or (kind in ("int", "float") and ":" in text):
            return text
        elif kind in ("int", "float", "bool", "null"):
            try:
                value = self._loader.construct_object(node)
            except ValueError:
                value = math.nan
        else:
            self.problems.append(
                Problem(path, f"has the YAML tag {shown(node.tag)}; only plain values are read")
            )
            return None
        if isinstance(value, float) and not math.isfinite(value):
            self.problems.append(Problem(path, f"{shown(text)} is not a value that can be read"))
            return None
        return value


def plain_text_is_number(text: str) -> bool:
    """Whether this text must be quoted in YAML although PyYAML would not quote it."""
    return _PLAIN_FLOAT.fullmatch(text) is not None


def _line_of(root: yaml.Node, path: str) -> int:
    node, line = root, root.start_mark.line
    for index, name in _steps(path):
        if name is not None and isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == name), None)
            if found is None:
                break
            line, node = found[0].start_mark.line, found[1]
        elif index is not None and isinstance(node, yaml.SequenceNode) and index < len(node.value):
            node = node.value[index]
            line = node.start_mark.line
        else:
            break
    return int(line) + 1


def _steps(path: str) -> Iterator[tuple[int | None, str | None]]:
    for index, name in _PATH_STEP.findall(path):
        yield (int(index), None) if index else (None, name)


def _syntax_problem(error: yaml.YAMLError, name: str) -> Problem:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        return Problem("", f"{name}:{mark.line + 1}: not readable as YAML or JSON: {reason}")
    return Problem("", f"{name}: not readable as YAML or JSON: {str(error).splitlines()[0]}")
