"""Exact values of Kubernetes quantities such as 250m, 1.5Gi or 1e3."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from stowplan.objects.base import Quantity

INT64_MAX = 2**63 - 1
AMOUNT_MAX = 2**56
"""The most of a resource that counts, on a node or for a pod: more than any machine has, and so little that
the sum of many, and a hundred times as much, are still within 64 bits."""

_FORM = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?P<suffix>[eE][+-]?[0-9]+|[KMGTPE]i|[numkMGTPE]?)"
)
_DECIMAL_EXPONENT = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_EXPONENT = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_SUFFIXES = _DECIMAL_EXPONENT.keys() | _BINARY_EXPONENT.keys()
_SUFFIX_LETTERS = "numkKMGTPEi"
_MOST_DIGITS = 1000


class QuantityError(ValueError):
    """A text that is not a quantity."""


def value(quantity: Quantity) -> int:
    """The quantity in units, rounded away from zero, within int64."""
    return _scaled(str(quantity), 0)


def milli_value(quantity: Quantity) -> int:
    """The quantity in thousandths, rounded away from zero, within int64."""
    return _scaled(str(quantity), 3)


def nano_value(quantity: Quantity) -> int:
    """The quantity in billionths, the finest that Kubernetes keeps, however large."""
    return _exact(str(quantity), 9)


def resource_amounts(resources: Mapping[str, Quantity]) -> dict[str, int]:
    """A resource list in canonical units: cpu in thousandths, everything else in units; within AMOUNT_MAX."""
    return {name: _amount(str(quantity), 3 if name == "cpu" else 0) for name, quantity in resources.items()}


@lru_cache(maxsize=65536)
def _scaled(text: str, shift: int) -> int:
    """The value times 10**shift. A cluster knows few different quantities, so each is worked out once."""
    return max(-INT64_MAX, min(INT64_MAX, _exact(text, shift)))


@lru_cache(maxsize=65536)
def _amount(text: str, shift: int) -> int:
    return max(-AMOUNT_MAX, min(AMOUNT_MAX, _exact(text, shift)))


@lru_cache(maxsize=65536)
def _exact(text: str, shift: int) -> int:
    digits = text.rstrip(_SUFFIX_LETTERS)
    suffix = text[len(digits) :]
    if digits.isdecimal() and digits.isascii() and len(digits) <= _MOST_DIGITS and suffix in _SUFFIXES:
        return _magnitude(int(digits), suffix, shift)
    return _parsed(text, shift)


def _parsed(text: str, shift: int) -> int:
    """A quantity that is more than digits with a suffix, as few are."""
    text = text.strip(" \t\r\n")
    form = _FORM.fullmatch(text)
    if not text or form is None:
        raise QuantityError(f'"{text[:80]}" is not a quantity such as 250m, 1.5Gi or 2e3')
    fraction = form["fraction"] or ""
    digits = (form["whole"] + fraction).lstrip("0")
    if len(digits) > _MOST_DIGITS:
        raise QuantityError(f"a quantity of {len(digits)} digits is too long")
    if not digits:
        return 0
    magnitude = _magnitude(int(digits), form["suffix"], shift - len(fraction))
    return -magnitude if form["sign"] == "-" else magnitude


def _magnitude(number: int, suffix: str, exponent: int) -> int:
    if suffix in _BINARY_EXPONENT:
        number <<= _BINARY_EXPONENT[suffix]
    elif suffix in _DECIMAL_EXPONENT:
        exponent += _DECIMAL_EXPONENT[suffix]
    else:
        # Beyond these bounds only "more than int64" and "next to nothing" are left.
        limit = 2 * _MOST_DIGITS
        exponent += max(-limit, min(limit, int(suffix[1:12])))
    if exponent >= 0:
        number *= 10**exponent
    else:
        number = -(-number // 10**-exponent)
    return number
