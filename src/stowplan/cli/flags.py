"""Flags as Kubernetes components take them: `--name value`, `--name=value`, `-v 2`; a switch needs no value
(`--profiling=false` turns it off); lists are comma-separated and may be repeated; `_` counts as `-`.

argparse knows another dialect, in which unit files written for kube-scheduler would not start.
"""

from __future__ import annotations

import difflib
import shutil
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class FlagError(ValueError):
    """A command line that cannot be used: one sentence for its user."""


class HelpWanted(Exception):  # noqa: N818 -- nothing went wrong
    """The user asked for help."""


@dataclass(frozen=True)
class Kind(Generic[T]):
    """A kind of value: its name in the help, and how it is read. A ValueError says what is wrong."""

    name: str
    read: Callable[[str], T]
    repeated: bool = False
    """Values of several mentions are put together; otherwise the last one counts."""
    alone: str = ""
    """The value when none is given; empty when there must be one."""


def _switch(text: str) -> bool:
    if text in {"1", "t", "T", "true", "TRUE", "True"}:
        return True
    if text in {"0", "f", "F", "false", "FALSE", "False"}:
        return False
    raise ValueError("must be true or false")


def _number(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            number = int(text, 10)
        except ValueError:
            raise ValueError("is not a whole number") from None
        if not least <= number <= most:
            raise ValueError(f"must be between {least} and {most}")
        return number

    return read


def _real(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("is not a number") from None


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _duration(text: str) -> Any:
    from stowplan.objects.duration import Duration

    return Duration.parse(text)


def _size(text: str) -> int:
    from stowplan.objects.quantity import value

    return value(text)


def _seconds_default(text: str) -> Any:
    """Old glog flags were whole numbers of seconds in some versions."""
    return _duration(text if not text.isdecimal() or text == "0" else f"{text}s")


SWITCH = Kind("", _switch, alone="true")
TEXT: Kind[str] = Kind("string", str)
NUMBER = Kind("int", _number(-(2**31), 2**31 - 1))
COUNT = Kind("int", _number(0, 2**31 - 1))
PORT = Kind("int", _number(0, 65535))
REAL = Kind("float", _real)
DURATION: Kind[Any] = Kind("duration", _duration)
PERIOD: Kind[Any] = Kind("duration", _seconds_default)
SIZE = Kind("quantity", _size)
LIST: Kind[tuple[str, ...]] = Kind("strings", _list, repeated=True)
VERSION = Kind("", str, alone="true")
EACH: Kind[tuple[str, ...]] = Kind("string", lambda text: (text,), repeated=True)
"""Repeated, and not split at commas."""


@dataclass(frozen=True)
class Flag:
    """One flag. `default` is what holds when it is not given."""

    name: str
    kind: Kind[Any]
    default: Any
    text: str = ""
    short: str = ""
    deprecated: str = ""
    """What to do instead: said once when the flag is used."""
    ignored: str = ""
    """Why it has no effect here: said once when the flag is used."""
    hidden: bool = False
    """Accepted, but not in the help: a flag of earlier versions."""

    @property
    def otherwise(self) -> Any:
        """The value when the flag is not given. Durations are written as on the command line."""
        return self.kind.read(self.default) if isinstance(self.default, str) else self.default


@dataclass
class Given:
    """What a command line says."""

    values: dict[str, Any]
    named: frozenset[str]
    """The flags that stand on the command line."""
    warnings: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


class FlagSet:
    """Groups of flags, and how to read a command line by them."""

    def __init__(self, usage: str, groups: Mapping[str, Sequence[Flag]]) -> None:
        self._usage = usage
        self._groups = groups
        self._flags = {flag.name: flag for flags in groups.values() for flag in flags}
        self._short = {flag.short: flag for flag in self._flags.values() if flag.short}

    def parse(self, words: Sequence[str]) -> Given:
        """Raises FlagError, or HelpWanted."""
        found: dict[str, Any] = {}
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word in {"-h", "--help"}:
                raise HelpWanted
            flag, text = self._take(word, rest)
            value = self._read(flag, text)
            if flag.kind.repeated and flag.name in found:
                value = (*found[flag.name], *value)
            found[flag.name] = value
        values = {name: found.get(name, flag.otherwise) for name, flag in self._flags.items()}
        used = [self._flags[name] for name in found]
        warnings = [f"--{flag.name} is deprecated: {flag.deprecated}" for flag in used if flag.deprecated]
        warnings += [f"--{flag.name} has no effect: {flag.ignored}" for flag in used if flag.ignored]
        return Given(values, frozenset(found), warnings)

    def _take(self, word: str, rest: list[str]) -> tuple[Flag, str]:
        """The flag that a word names, and its value, which may be the next word."""
        if word.startswith("--") and len(word) > 2:
            name, equals, text = word[2:].partition("=")
            flag = self._named(name)
        elif word.startswith("-") and len(word) > 1 and word[1] in self._short:
            flag, equals = self._short[word[1]], word[2:]
            text = equals.removeprefix("=")
        elif word.startswith("-") and len(word) > 1 and word != "--":
            raise FlagError(f"unknown flag: {word}{self._advice(word.lstrip('-').partition('=')[0])}")
        else:
            raise FlagError(f"takes no arguments, got {word!r}; flags start with --")
        if equals:
            return flag, text
        if flag.kind.alone:
            return flag, flag.kind.alone
        if not rest:
            raise FlagError(f"flag needs a value: {word} {flag.kind.name}")
        return flag, rest.pop(0)

    def _named(self, name: str) -> Flag:
        flag = self._flags.get(name.replace("_", "-"))
        if flag is None:
            raise FlagError(f"unknown flag: --{name}{self._advice(name)}")
        return flag

    def _advice(self, name: str) -> str:
        visible = [flag.name for flag in self._flags.values() if not flag.hidden]
        near = difflib.get_close_matches(name.replace("_", "-"), visible, 1)
        command = self._usage.partition(" [")[0]
        return f" (did you mean --{near[0]}?)" if near else f" ({command} --help lists all)"

    def _read(self, flag: Flag, text: str) -> Any:
        try:
            return flag.kind.read(text)
        except ValueError as problem:
            raise FlagError(f"--{flag.name}: {text!r}: {problem}") from None

    def help(self, about: str) -> str:
        """What the command is for, then all flags by group, as wide as the terminal."""
        width = min(max(shutil.get_terminal_size((110, 24)).columns, 60), 140)
        parts = [f"usage: {self._usage}", "", about.strip()]
        for title, flags in self._groups.items():
            visible = [flag for flag in flags if not flag.hidden]
            if visible:
                parts += ["", f"{title}:"]
                parts += [line for flag in visible for line in _help_of(flag, width)]
        return "\n".join(parts)


_TEXT_COLUMN = 34


def _help_of(flag: Flag, width: int) -> Iterable[str]:
    head = f"  {f'-{flag.short}, ' if flag.short else ''}--{flag.name}"
    if flag.kind.name:
        head += f" {flag.kind.name}"
    words = (f"Accepted, without effect: {flag.ignored}." if flag.ignored else flag.text) + _default_of(flag)
    lines = textwrap.wrap(words, width - _TEXT_COLUMN, break_long_words=False, break_on_hyphens=False)
    if len(head) < _TEXT_COLUMN - 1:
        head = head.ljust(_TEXT_COLUMN) + lines.pop(0)
    yield head
    for line in lines:
        yield " " * _TEXT_COLUMN + line


def _default_of(flag: Flag) -> str:
    value = flag.default
    if value in ("", (), None, False) or value == 0:
        return ""
    shown = ",".join(value) if isinstance(value, tuple) else "true" if value is True else value
    return f" (default {shown})"
