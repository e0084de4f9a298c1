"""What a plugin says of a pod, or of a pod on a node."""

from __future__ import annotations

from collections.abc import Container
from enum import IntEnum
from typing import NamedTuple

import numpy as np

_INT64 = 2**63


class Code(IntEnum):
    """Upstream's codes, with upstream's numbers."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNRESOLVABLE = 3
    """Unschedulable, and removing pods from the node would not help."""
    WAIT = 4
    SKIP = 5
    PENDING = 6

    @property
    def label(self) -> str:
        """The name that upstream uses in metrics and texts."""
        return _LABELS[self]


_LABELS = ("Success", "Error", "Unschedulable", "UnschedulableAndUnresolvable", "Wait", "Skip", "Pending")
ALL = frozenset(Code)
REJECTIONS = frozenset((Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING))


class Status(NamedTuple):
    """A code and the reasons for it. Success has no Status: plugins return None for it."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def rejected(self) -> bool:
        """Whether the pod was turned away by a rule, rather than by an error."""
        return self.code in REJECTIONS

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """The same, said by this plugin, unless it already says by whom."""
        return self if self.plugin else self._replace(plugin=plugin)


def unschedulable(*reasons: str) -> Status:
    """Not now; removing pods from the node might help."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """Not now, and removing pods from the node would not help."""
    return Status(Code.UNRESOLVABLE, reasons)


def pending(*reasons: str) -> Status:
    """Not now; when the plugin's event comes the pod is tried again at once."""
    return Status(Code.PENDING, reasons)


def error(*reasons: str) -> Status:
    """Something went wrong: the pod is tried again after a while."""
    return Status(Code.ERROR, reasons)


def checked_status(answer: object, allowed: Container[Code] = ALL) -> Status | None:
    """A plugin's answer, if it is one: None, or a Status that is made as one should be, with a code that can
    be said here. Asked at once, because its parts are read much later, when nobody knows who gave them."""
    if answer is None:
        return None
    if not isinstance(answer, Status):
        raise ValueError(f"{answer!r} is neither None nor a Status")
    code: object = answer.code
    reasons: object = answer.reasons
    plugin: object = answer.plugin
    if not isinstance(code, Code) or not isinstance(plugin, str):
        raise ValueError(f"a Status has a Code and the name of a plugin, got {code!r} and {plugin!r}")
    if not isinstance(reasons, tuple) or not all(isinstance(reason, str) for reason in reasons):
        raise ValueError(f"the reasons of a Status must be a tuple of texts, got {reasons!r}")
    if code not in allowed:
        raise ValueError(answer.message or f"a Status of {code.label} is no answer here")
    return answer


def checked_score(score: object) -> int:
    """The score of one node as a plugin gave it. What is not whole is refused: a column would cut it off."""
    if isinstance(score, (int, np.integer)) and not isinstance(score, bool) and -_INT64 <= score < _INT64:
        return int(score)
    raise TypeError(f"a score must be an int of 64 bits, got {score!r}")
