"""Semantic versions (semver.org 2.0.0), as attributes of devices and in expressions about them."""

from __future__ import annotations

import re
from typing import NamedTuple

_NUMBER = r"(?:0|[1-9][0-9]*)"
_FORM = re.compile(
    rf"(?P<major>{_NUMBER})\.(?P<minor>{_NUMBER})\.(?P<patch>{_NUMBER})"
    r"(?:-(?P<pre>[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+(?P<build>[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?",
    re.ASCII,
)
_LARGEST = 2**64 - 1


class SemverError(ValueError):
    """A text that is no semantic version."""


class _Identifier(NamedTuple):
    """A part of a pre-release: numbers come before words and are compared as numbers."""

    is_word: bool
    number: int
    word: str


class Semver(NamedTuple):
    """A version without its build metadata, which plays no part in comparisons."""

    major: int
    minor: int
    patch: int
    pre: tuple[_Identifier, ...] = ()

    @property
    def text(self) -> str:
        """The version as text; equal versions have equal texts."""
        release = ".".join(part.word if part.is_word else str(part.number) for part in self.pre)
        return f"{self.major}.{self.minor}.{self.patch}" + (f"-{release}" if release else "")

    def compare(self, other: Semver) -> int:
        """-1, 0 or 1. A pre-release comes before its release."""
        mine, theirs = self[:3], other[:3]
        if mine != theirs:
            return 1 if mine > theirs else -1
        if not self.pre or not other.pre:
            return (not self.pre) - (not other.pre)
        return (self.pre > other.pre) - (self.pre < other.pre)


def parse_semver(text: str) -> Semver:
    """Reads a version that is written exactly as the standard wants it."""
    form = _FORM.fullmatch(text)
    if form is None:
        raise SemverError(f"{text!r} is not a semantic version such as 1.2.3")
    major, minor, patch = int(form["major"]), int(form["minor"]), int(form["patch"])
    if max(major, minor, patch) > _LARGEST:
        raise SemverError(f"{text!r} has a number that is too large")
    release = form["pre"].split(".") if form["pre"] else []
    return Semver(major, minor, patch, tuple(_identifier(part, text) for part in release))


def _identifier(part: str, text: str) -> _Identifier:
    if not part.isdigit():
        return _Identifier(True, 0, part)
    if len(part) > 1 and part[0] == "0":
        raise SemverError(f"{text!r} has a number with leading zeros")
    return _Identifier(False, int(part), "")


def parse_lenient(text: str) -> Semver:
    """Reads a version that may start with v, lack minor and patch, or have leading zeros."""
    parts = text.removeprefix("v").split(".", 2)
    parts = [_without_zeros(part) for part in parts]
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise SemverError(f"{text!r} is short and cannot have a pre-release or build metadata")
        parts += ["0"] * (3 - len(parts))
    return parse_semver(".".join(parts))


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    rest = part.lstrip("0")
    return rest if rest[:1] in set("0123456789") and rest else f"0{rest}"
