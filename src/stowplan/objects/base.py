"""The base of every record.

Records are frozen: a cluster's state is shared by remembered answers, trial changes and explanations,
and none of them may find that an object has changed under it. The maps in them are dicts, which only a type
checker keeps from being changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Generic, Self, TypeAlias, TypeVar, overload

import msgspec

Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

Quantity: TypeAlias = int | float | str
"""A Kubernetes quantity as written; `stowplan.objects.quantity` gives its exact value."""

ResourceList: TypeAlias = Mapping[str, Quantity]

T = TypeVar("T")


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """A part of a Kubernetes object, holding the fields that a scheduler reads; others cost nothing.

    Records never form cycles, so the garbage collector need not walk them: with fifty thousand pods that
    is the difference between a pause that is felt and none. A record with cached properties (dict=True) must
    say gc=True.
    """


class derived(Generic[T]):  # noqa: N801 - it is used like property
    """A property that is worked out once. As functools.cached_property, but without its lock (until Python
    3.12), which costs more than most of what is derived."""

    def __init__(self, work_out: Callable[[Any], T]) -> None:
        self._work_out = work_out
        self.__doc__ = work_out.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, record: None, owner: type) -> Self: ...
    @overload
    def __get__(self, record: Any, owner: type) -> T: ...
    def __get__(self, record: Any, owner: type) -> T | Self:
        if record is None:
            return self
        value = record.__dict__[self._name] = self._work_out(record)
        return value


class ObjectError(ValueError):
    """An object that cannot be understood: says which object, which field and what is wrong with it."""
