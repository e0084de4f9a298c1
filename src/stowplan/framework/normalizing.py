"""The usual way to bring scores to 0 to 100."""

from __future__ import annotations

import numpy as np

from stowplan.cluster import IntColumn
from stowplan.framework.contract import MAX_SCORE

_LARGEST = np.iinfo(np.int64).max // MAX_SCORE
"""What can be multiplied in a column; a score may be a number of bytes or nanoseconds."""


def default_normalize(scores: IntColumn, *, reverse: bool = False) -> IntColumn:
    """Scales scores so that the highest becomes 100; with `reverse` the highest becomes 0."""
    highest = int(scores.max(initial=0))
    if highest == 0:
        return np.full(len(scores), MAX_SCORE, np.int64) if reverse else scores
    if highest <= _LARGEST:
        scaled = scores * MAX_SCORE // highest
    else:
        scaled = np.array([score * MAX_SCORE // highest for score in scores.tolist()], np.int64)
    return MAX_SCORE - scaled if reverse else scaled
