"""From plain data to records, strictly, with every problem collected.

msgspec stops at the first thing wrong. A configuration is written by hand, so this walks the data along the
fields of the record types itself, names each unknown field and each wrong value, and leaves only single
values to msgspec. Plugin args go the same way.
"""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, TypeVar, cast, get_args, get_origin

import msgspec

from stowplan.config.problems import Problem, child, shown
from stowplan.objects.duration import Duration
from stowplan.objects.meta import decode_time

R = TypeVar("R", bound=msgspec.Struct)


class _Invalid:
    """Stands where a value could not be read; its problem is already noted."""


_INVALID: Final = _Invalid()

_IN_WORDS: Final[Mapping[Any, str]] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text (quote it if it looks like a number)",
    bytes: "base64 text",
    Duration: 'a duration such as "15s" or "1m30s"',
}


def read_record(
    data: Any,
    kind: type[R],
    path: str,
    problems: list[Problem],
    hidden: Mapping[type, Iterable[str]] | None = None,
) -> R | None:
    """The record in the data, or None where it cannot be made. Unknown fields are noted and left out.

    `hidden` has fields of record types that this version of the format does not know yet.
    """
    value = _Reader(problems, hidden or {}).read(data, kind, path)
    return None if isinstance(value, _Invalid) else cast(R, value)


class _Reader:
    def __init__(self, problems: list[Problem], hidden: Mapping[type, Iterable[str]]) -> None:
        self.problems = problems
        self.hidden = hidden

    def read(self, data: Any, kind: Any, path: str) -> Any:
        kind = _without_none(kind)
        origin, arguments = get_origin(kind), get_args(kind)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return self.read_struct(data, kind, path)
        if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
            return self.read_list(data, arguments[0], path)
        if origin in (dict, Mapping) and arguments[0] is str:
            return self.read_map(data, arguments[1], path)
        return self.read_value(data, kind, path)

    def read_struct(self, data: Any, kind: type[msgspec.Struct], path: str) -> Any:
        if not isinstance(data, dict):
            return self.refuse(data, "an object with fields", path)
        given = {name: value for name, value in data.items() if value is not None}
        hidden = frozenset(self.hidden.get(kind, ()))
        values: dict[str, Any] = {}
        for field in msgspec.structs.fields(kind):
            if field.encode_name in hidden:
                continue
            here = child(path, field.encode_name)
            if field.encode_name in given:
                values[field.name] = self.read(given.pop(field.encode_name), field.type, here)
            elif field.required:
                self.problems.append(Problem(here, "is missing"))
                values[field.name] = _INVALID
        self.note_unknown(given, kind, hidden, path)
        if any(isinstance(value, _Invalid) for value in values.values()):
            return _INVALID
        return self.build(kind, values, path)

    def build(self, kind: type[msgspec.Struct], values: dict[str, Any], path: str) -> Any:
        try:
            return kind(**values)
        except (TypeError, ValueError) as error:  # a check in the __post_init__ of the record
            self.problems.append(Problem(path, str(error)))
            return _INVALID

    def note_unknown(
        self, names: Iterable[str], kind: type[msgspec.Struct], hidden: frozenset[str], path: str
    ) -> None:
        known = [
            field.encode_name for field in msgspec.structs.fields(kind) if field.encode_name not in hidden
        ]
        for name in names:
            message = "unknown field"
            if name in hidden:
                message += " in this apiVersion"
            elif similar := _most_similar(name, known):
                message += f' (did you mean "{similar}"?)'
            self.problems.append(Problem(child(path, name), message))

    def read_list(self, data: Any, kind: Any, path: str) -> Any:
        if not isinstance(data, list | tuple):
            return self.refuse(data, "a list", path)
        items = [self.read(item, kind, f"{path}[{i}]") for i, item in enumerate(data)]
        return _INVALID if any(isinstance(item, _Invalid) for item in items) else tuple(items)

    def read_map(self, data: Any, kind: Any, path: str) -> Any:
        if not isinstance(data, dict):
            return self.refuse(data, "an object with fields", path)
        entries = {name: self.read(value, kind, child(path, name)) for name, value in data.items()}
        return _INVALID if any(isinstance(value, _Invalid) for value in entries.values()) else entries

    def read_value(self, data: Any, kind: Any, path: str) -> Any:
        if isinstance(data, float) and data.is_integer() and _is_whole_number(kind):
            data = int(data)  # 4.0 and 4e0 are 4, as in any JSON
        try:
            return msgspec.convert(data, kind, dec_hook=_decode_value)
        except msgspec.ValidationError as error:
            if kind is Duration and isinstance(data, str):
                self.problems.append(Problem(path, str(error)))
                return _INVALID
            words = _in_words(kind, data)
            return self.refuse(data, words, path) if words else self.note(data, str(error), path)

    def refuse(self, data: Any, expected: str, path: str) -> _Invalid:
        self.problems.append(Problem(path, f"{shown(data)} is not {expected}"))
        return _INVALID

    def note(self, data: Any, message: str, path: str) -> _Invalid:
        self.problems.append(Problem(path, f"{shown(data)}: {message.partition(' - at ')[0]}"))
        return _INVALID


def _decode_value(kind: type, value: Any) -> Any:
    if kind is not Duration:
        return decode_time(kind, value)
    if not isinstance(value, str):
        raise TypeError("not text")
    return Duration.parse(value)


def _without_none(kind: Any) -> Any:
    if get_origin(kind) in (typing.Union, types.UnionType):
        rest = [one for one in get_args(kind) if one is not types.NoneType]
        if len(rest) == 1:
            return rest[0]
    return kind


def _is_whole_number(kind: Any) -> bool:
    return (get_args(kind)[0] if get_origin(kind) is Annotated else kind) is int


def _in_words(kind: Any, data: Any) -> str | None:
    """What was expected. Bounds are named only to whoever gave a number."""
    if get_origin(kind) is not Annotated:
        return _IN_WORDS.get(kind)
    base, *notes = get_args(kind)
    words = _IN_WORDS.get(base)
    bounds = next((note for note in notes if isinstance(note, msgspec.Meta) and note.ge is not None), None)
    if words is None or bounds is None or bounds.le is None or not isinstance(data, int):
        return words
    return f"{words} between {bounds.ge} and {bounds.le}"


def _most_similar(name: str, known: list[str]) -> str | None:
    by_lower = {one.lower(): one for one in known}
    if name.lower() in by_lower:
        return by_lower[name.lower()]
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.6)), None)
