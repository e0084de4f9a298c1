"""Scores of any size come to 0 to 100."""

from __future__ import annotations

import numpy as np
import pytest

from stowplan.framework import default_normalize


@pytest.mark.parametrize("reverse", [False, True])
def test_enormous_scores_are_scaled_exactly(reverse: bool) -> None:
    scores = np.array([0, 2**61, 2**63 - 1, 2**55])
    scaled = default_normalize(scores, reverse=reverse).tolist()
    assert scaled == ([100, 75, 0, 100] if reverse else [0, 25, 100, 0])
