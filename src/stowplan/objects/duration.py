"""Lengths of time as configuration and API objects write them: Go's `1m30s`.

Kept as whole nanoseconds, as Go keeps them, so that what was read is written back unchanged.
"""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # U+00B5, the micro sign
    "μs": 10**3,  # U+03BC, the Greek letter
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")
_LONGEST: Final = 2**63 - 1


class Duration(int):
    """A length of time in nanoseconds; `str()` gives Go's way of writing it."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Duration:
        """Read Go's syntax: numbers with units (`ns us ms s m h`), signed, with fractions, or a plain `0`."""
        sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
        if rest == "0":
            return cls(0)
        if not rest:
            raise ValueError(f'"{text}" is not a duration; write for example "15s" or "1m30s"')
        total, at = 0, 0
        while at < len(rest):
            part = _PART.match(rest, at)
            assert part is not None  # every group may be empty
            whole, fraction, unit = part.group(1), part.group(2) or "", part.group(3)
            if not whole and not fraction:
                raise ValueError(f'"{text}" is not a duration; write for example "15s" or "1m30s"')
            if unit not in _UNITS:
                problem = f'has the unknown unit "{unit}"' if unit else "lacks a unit"
                raise ValueError(f'the duration "{text}" {problem}; units are ns, us, ms, s, m and h')
            total += int(whole or "0") * _UNITS[unit]
            total += _fraction_of(fraction, _UNITS[unit])
            at = part.end()
        if total > _LONGEST + (sign < 0):
            raise ValueError(f'the duration "{text}" is too long; the longest is {cls(_LONGEST)}')
        return cls(sign * total)

    @classmethod
    def of_seconds(cls, seconds: float) -> Duration:
        """The duration of so many seconds, to the nearest nanosecond."""
        return cls(round(seconds * 10**9))

    @property
    def seconds(self) -> float:
        """The same as seconds, for clocks and timeouts."""
        return self / 10**9

    def __str__(self) -> str:
        nanoseconds = abs(int(self))
        sign = "-" if self < 0 else ""
        if nanoseconds < 10**9:
            return sign + _below_a_second(nanoseconds)
        minutes, rest = divmod(nanoseconds, _UNITS["m"])
        hours, minutes = divmod(minutes, 60)
        text = f"{_decimal(rest, 10**9)}s"
        if hours or minutes:
            text = f"{minutes}m{text}"
        if hours:
            text = f"{hours}h{text}"
        return sign + text

    def __repr__(self) -> str:
        return f"Duration({str(self)!r})"


def _fraction_of(digits: str, unit: int) -> int:
    """`0.digits` of a unit in nanoseconds, rounded as Go does: a third of an hour is 20 minutes."""
    numerator, scale = 0, 1.0
    for digit in digits:
        longer = numerator * 10 + int(digit)
        if longer > _LONGEST:
            break
        numerator, scale = longer, scale * 10
    return int(float(numerator) * (unit / scale))


def _below_a_second(nanoseconds: int) -> str:
    if nanoseconds == 0:
        return "0s"
    for unit in ("ms", "µs"):
        if nanoseconds >= _UNITS[unit]:
            return _decimal(nanoseconds, _UNITS[unit]) + unit
    return f"{nanoseconds}ns"


def _decimal(amount: int, unit: int) -> str:
    """`amount / unit` exactly, without trailing zeros; `unit` is a power of ten."""
    whole, rest = divmod(amount, unit)
    if rest == 0:
        return str(whole)
    return f"{whole}.{rest:0{len(str(unit)) - 1}d}".rstrip("0")
