"""What a filter says of many nodes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from stowplan.cluster.columns import IntColumn, Mask
from stowplan.framework.status import REJECTIONS, Status, checked_status


class Verdict:
    """A number per node, 0 where the node passes, and what each other number means.

    Few nodes are ever asked for their reasons, and most of them share the same ones, so the reasons
    are put into words only on request, once per distinct number. A verdict may be kept and asked long after
    it was given: its codes must not be written into any more, and `status_of` must not look at what changes.
    """

    __slots__ = ("codes", "status_of")

    def __init__(self, codes: IntColumn, status_of: Callable[[int], Status]) -> None:
        self.codes = codes
        self.status_of = status_of

    @property
    def passed(self) -> Mask:
        return np.equal(self.codes, 0)

    def spread_out(self, rows: IntColumn | slice, size: int) -> Verdict:
        """This verdict on some rows, which are in order, as one on all: the others pass."""
        if len(self.codes) == size:
            return self
        codes = np.zeros(size, np.int64)
        codes[rows] = self.codes
        return Verdict(codes, self.status_of)

    @classmethod
    def passes(cls, size: int) -> Verdict:
        """Every node passes."""
        return cls(np.zeros(size, np.int64), _no_status)

    @classmethod
    def rejects(cls, rejected: Mask, status: Status) -> Verdict:
        """One reason: the nodes for which it holds are rejected."""
        return cls(rejected.astype(np.int64), lambda _: status)

    @classmethod
    def first_of(cls, *rules: tuple[Mask, Status]) -> Verdict:
        """Several reasons in order: each node is rejected by the first that holds for it."""
        codes = np.zeros(len(rules[0][0]), np.int64)
        for number in range(len(rules), 0, -1):
            codes[rules[number - 1][0]] = number
        return cls(codes, lambda code: rules[code - 1][1])

    @classmethod
    def of(cls, statuses: Sequence[Status | None]) -> Verdict:
        """From a status per node, as the per-node form gives them."""
        numbers: dict[Status | None, int] = {None: 0}
        codes = [numbers.setdefault(checked_status(status, REJECTIONS), len(numbers)) for status in statuses]
        words = list(numbers)
        return cls(np.array(codes, np.int64), lambda code: _status(words[code]))


def _status(status: Status | None) -> Status:
    assert status is not None
    return status


def _no_status(code: int) -> Status:
    raise ValueError(f"no node was rejected, so {code} means nothing")
