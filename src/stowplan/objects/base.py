"""The base of every record.

Records are frozen: a cluster's state is shared by remembered answers, trial changes and explanations,
and none of them may find that an object has changed under it.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

Quantity: TypeAlias = int | float | str
"""A Kubernetes quantity as written; `stowplan.objects.quantity` gives its exact value."""

ResourceList: TypeAlias = dict[str, Quantity]


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """A part of a Kubernetes object, holding the fields that a scheduler reads; others cost nothing.

    Records never form cycles, so the garbage collector need not walk them: with fifty thousand pods that
    is the difference between a pause that is felt and none. A record with cached properties (dict=True) must
    say gc=True.
    """


class ObjectError(ValueError):
    """An object that cannot be understood: says which object, which field and what is wrong with it."""
