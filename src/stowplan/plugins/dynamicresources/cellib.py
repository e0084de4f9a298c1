"""The functions that Kubernetes adds to CEL: quantities, semantic versions, and what the library lacks.

CEL values of types that the library does not know travel as maps with a single key that no attribute
can have. Equal quantities, and equal versions, are equal maps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from math import floor
from typing import Any

from cel import OptionalValue
from cel.stdlib import STDLIB_FUNCTIONS, bool_

from stowplan.objects.base import Quantity
from stowplan.objects.quantity import QuantityError, nano_value
from stowplan.plugins.dynamicresources import celsyntax
from stowplan.plugins.dynamicresources.semver import Semver, SemverError, parse_lenient, parse_semver

_QUANTITY = "\0quantity"
_SEMVER = "\0semver"
_NANO = 10**9
_INT64 = 2**63


def quantity_value(quantity: Quantity) -> dict[str, str]:
    """A quantity as CEL sees it."""
    return _from_nano(nano_value(quantity))


def version_value(text: str) -> dict[str, str]:
    """A semantic version as CEL sees it."""
    return {_SEMVER: parse_semver(text).text}


def _from_nano(nano: int) -> dict[str, str]:
    return {_QUANTITY: str(nano)}


def _known(value: object) -> int | Semver:
    """A quantity (in billionths) or a version out of a CEL value."""
    if isinstance(value, Mapping) and _QUANTITY in value:
        return int(value[_QUANTITY])
    if isinstance(value, Mapping) and _SEMVER in value:
        return parse_semver(value[_SEMVER])
    raise TypeError("no such overload")


def _quantity(value: object) -> int:
    known = _known(value)
    if isinstance(known, Semver):
        raise TypeError("no such overload")
    return known


def _semver(value: object) -> Semver:
    known = _known(value)
    if isinstance(known, int):
        raise TypeError("no such overload")
    return known


def _compare(one: object, other: object) -> int:
    left, right = _known(one), _known(other)
    if isinstance(left, int) and isinstance(right, int):
        return (left > right) - (left < right)
    if isinstance(left, Semver) and isinstance(right, Semver):
        return left.compare(right)
    raise TypeError("no such overload")


def _amount(value: object) -> int:
    """What can be added to a quantity: another one, or a whole number."""
    return value * _NANO if isinstance(value, int) and not isinstance(value, bool) else _quantity(value)


def _parse_quantity(text: str) -> dict[str, str]:
    """As `quantity_value`, but without the space around it that an object may have there."""
    if text != text.strip():
        raise QuantityError(f"{text!r} is not a quantity: it has space around it")
    return quantity_value(text)


def _is_quantity(text: str) -> bool:
    try:
        _parse_quantity(text)
    except QuantityError:
        return False
    return True


def _as_integer(value: object) -> int:
    nano = _quantity(value)
    if nano % _NANO or not -_INT64 <= nano // _NANO < _INT64:
        raise ValueError("cannot convert value to integer")
    return nano // _NANO


def _is_integer(value: object) -> bool:
    nano = _quantity(value)
    return not nano % _NANO and -_INT64 <= nano // _NANO < _INT64


def _sign(value: object) -> int:
    nano = _quantity(value)
    return (nano > 0) - (nano < 0)


def _parse_version(text: str, normalize: bool = False) -> Semver:
    return parse_lenient(text) if normalize else parse_semver(text)


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        _parse_version(text, normalize)
    except SemverError:
        return False
    return True


def _find(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found.group() if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match.group() for match in re.finditer(pattern, text)]
    return found if limit < 0 else found[:limit]


def _truth_of(value: bool | str) -> bool:
    """The library's own does not know single capital letters."""
    truth: bool = bool_(value.lower() if value in ("T", "F") else value)
    return truth


def _index_of(where: str | Sequence[Any], what: Any, start: int = 0) -> int:
    """The first place of a text in a text, or of an item in a list; -1 if there is none. In a text also from
    a start on, which may well lie behind its end."""
    if not isinstance(where, str):
        return next((place for place, item in enumerate(where) if item == what), -1)
    if not what:
        return start
    _check_start(start)
    return where.find(what, start)


def _last_index_of(where: str | Sequence[Any], what: Any, start: int | None = None) -> int:
    """The last place, of a text in a text also back from a start."""
    if not isinstance(where, str):
        return max((place for place, item in enumerate(where) if item == what), default=-1)
    if start is None:
        return where.rfind(what)
    if not what:
        return start
    _check_start(start)
    return where.rfind(what, 0, start + len(what)) if start < len(where) else -1


def _check_start(start: int) -> None:
    if start < 0:
        raise ValueError(f"index out of range: {start}")


def _is_sorted(items: Sequence[Any]) -> bool:
    return all(one <= other for one, other in pairwise(items))


# What the rewritten calls, optional selections and macros call.


def _text_of(value: Any) -> Any:
    """The library turns everything into text as upstream does, but for truth and durations."""
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.6f}".rstrip("0").rstrip(".") + "s"
    return str(value).lower() if isinstance(value, bool) else value


def _seconds_of(value: Any) -> Any:
    """... and everything into a whole number but times, of which that is their seconds since 1970."""
    return floor(value.timestamp()) if isinstance(value, datetime) else value


def _select(operand: Any, key: Any) -> OptionalValue:
    if isinstance(operand, OptionalValue):
        if not operand.has_value():
            return operand
        operand = operand.value()
    if isinstance(operand, list):
        inside = isinstance(key, int) and 0 <= key < len(operand)
        return OptionalValue.of(operand[key]) if inside else OptionalValue.none()
    if not isinstance(operand, Mapping):
        raise TypeError("no such overload")
    return OptionalValue.of(operand[key]) if key in operand else OptionalValue.none()


def _items(optional: OptionalValue) -> list[Any]:
    return [optional.value()] if optional.has_value() else []


def _first(items: Sequence[Any]) -> OptionalValue:
    return OptionalValue.of(items[0]) if items else OptionalValue.none()


def _flatten(items: Sequence[Sequence[Any]]) -> OptionalValue:
    return _first(items[0]) if items else OptionalValue.none()


def _domain(domains: Mapping[str, Any], name: str) -> Any:
    """A device without any attribute in a domain has an empty map there."""
    return domains.get(name, {})


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    # The library's own `contains` for texts is right; the one for lists would hide it.
    **{name: function for name, function in STDLIB_FUNCTIONS.items() if name != "contains"},
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "bool": _truth_of,
    "quantity": _parse_quantity,
    "isQuantity": _is_quantity,
    "sign": _sign,
    "isInteger": _is_integer,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda value: _quantity(value) / _NANO,
    "add": lambda one, other: _from_nano(_quantity(one) + _amount(other)),
    "sub": lambda one, other: _from_nano(_quantity(one) - _amount(other)),
    "compareTo": _compare,
    "isGreaterThan": lambda one, other: _compare(one, other) > 0,
    "isLessThan": lambda one, other: _compare(one, other) < 0,
    "semver": lambda text, normalize=False: {_SEMVER: _parse_version(text, normalize).text},
    "isSemver": _is_semver,
    "major": lambda value: _semver(value).major,
    "minor": lambda value: _semver(value).minor,
    "patch": lambda value: _semver(value).patch,
    "find": _find,
    "findAll": _find_all,
    "isSorted": _is_sorted,
    celsyntax.TEXT_OF: _text_of,
    celsyntax.SECONDS_OF: _seconds_of,
    celsyntax.SIZE: len,
    celsyntax.OPT_SELECT: _select,
    celsyntax.OPT_ITEMS: _items,
    celsyntax.OPT_FIRST: _first,
    celsyntax.OPT_FLATTEN: _flatten,
    celsyntax.DOMAIN: _domain,
}
"""By the names that they have in expressions; methods take what they are called on first."""
