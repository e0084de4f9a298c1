"""Checks that types cannot express: every quantity in an object must be one.

A list of what to check is made once per kind of record from its field types, so that checking costs
nothing where there are no quantities, and no field can be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from stowplan.objects.base import Record
from stowplan.objects.quantity import QuantityError, value

Check = Callable[[Any], None]


class FieldError(ValueError):
    """A wrong value, and the path to it from where checking began."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = path

    def below(self, part: str) -> FieldError:
        """The same error, seen from one level further up."""
        joint = "." if self.path and not self.path.startswith("[") else ""
        return FieldError(self.reason, f"{part}{joint}{self.path}")


@cache
def quantity_check(record: type[Record]) -> Check | None:
    """A function that raises `FieldError` for a wrong quantity in a record; None if a record has none."""
    checks = []
    for field in msgspec.structs.fields(record):
        check = _check_of(inspect.type_info(field.type))
        if check is not None:
            checks.append((field.name, field.encode_name, check))
    if not checks:
        return None

    def check_record(item: Any) -> None:
        for name, json_name, check in checks:
            held = getattr(item, name)
            if held is not None:
                try:
                    check(held)
                except FieldError as error:
                    raise error.below(json_name) from None

    return check_record


def _check_of(kind: inspect.Type) -> Check | None:
    if isinstance(kind, inspect.UnionType):
        options = [option for option in kind.types if not isinstance(option, inspect.NoneType)]
        if {type(option) for option in options} == {inspect.IntType, inspect.FloatType, inspect.StrType}:
            return _check_quantity
        return _check_of(options[0]) if len(options) == 1 else None
    if isinstance(kind, inspect.StructType):
        return quantity_check(kind.cls)
    if isinstance(kind, inspect.VarTupleType):
        return _each(_check_of(kind.item_type), enumerate, "[{}]")
    if isinstance(kind, inspect.DictType):
        return _each(_check_of(kind.value_type), dict.items, "{}")
    return None


def _each(check: Check | None, pairs: Callable[[Any], Any], part: str) -> Check | None:
    if check is None:
        return None

    def check_each(items: Any) -> None:
        for key, item in pairs(items):
            try:
                check(item)
            except FieldError as error:
                raise error.below(part.format(key)) from None

    return check_each


def _check_quantity(quantity: Any) -> None:
    try:
        value(quantity)
    except QuantityError as error:
        raise FieldError(str(error)) from None
