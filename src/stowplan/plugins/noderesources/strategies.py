"""How full a node may get: the strategies that turn requested and offered amounts into a score.

Every strategy has two forms that agree: `one` for one resource of one node, `many` for stacked columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from stowplan.cluster import IntColumn, Mask
from stowplan.plugins.noderesources.args import (
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    ScoringStrategy,
    UtilizationShapePoint,
)
from stowplan.plugins.noderesources.columns import Column, FloatColumn, Offered

_SCORE_SCALE = 10
"""Shapes are given in scores of 0 to 10."""


class Strategy:
    """A score per resource, and what they are together: their weighted mean, rounded down."""

    def one(self, requested: int, capacity: int) -> int:
        """The score of one resource of one node; the capacity is not 0."""
        raise NotImplementedError

    def many(self, requested: Column, offered: Offered) -> Column:
        """`one` in columns; whatever it is where nothing is offered. `requested` is no more than what is
        offered, and is overwritten."""
        raise NotImplementedError

    def together(self, scores: Sequence[tuple[int, int]]) -> int:
        """From the scores and weights of the resources that a node offers."""
        weights = sum([weight for _, weight in scores])
        return sum([score * weight for score, weight in scores]) // weights if weights else 0

    def all_together(self, scores: Column, weights: Sequence[int], missing: Mask | None) -> IntColumn:
        """`together` in columns; `scores` are overwritten. They are so small that dividing them in floats
        rounds no quotient up to a whole number."""
        if missing is None:
            total = scores[0] if weights[0] == 1 else scores[0] * weights[0]
            for score, weight in zip(scores[1:], weights[1:], strict=True):
                total += score if weight == 1 else score * weight
            mean: FloatColumn = total / sum(weights)
        else:
            total, counted = _weighted(scores, weights, ~missing)
            mean = total / np.maximum(counted, 1)
        return mean.astype(np.int64)


class LeastAllocated(Strategy):
    """The emptier, the better: spreads load."""

    def one(self, requested: int, capacity: int) -> int:
        return (capacity - requested) * 100 // capacity if requested <= capacity else 0

    def many(self, requested: Column, offered: Offered) -> Column:
        return offered.percent(np.subtract(offered.amounts, requested, out=requested))


class MostAllocated(Strategy):
    """The fuller, the better: keeps nodes free."""

    def one(self, requested: int, capacity: int) -> int:
        return min(requested, capacity) * 100 // capacity

    def many(self, requested: Column, offered: Offered) -> Column:
        return offered.percent(requested)


class RequestedToCapacityRatio(Strategy):
    """A score function of the utilization, straight between given points. Resources that score 0 do not
    count at all, and the mean is rounded to the nearest."""

    def __init__(self, shape: Sequence[UtilizationShapePoint]) -> None:
        self._scores = [_interpolate(shape, utilization) for utilization in range(101)]
        self._column = np.array(self._scores, np.int64)

    def one(self, requested: int, capacity: int) -> int:
        return self._scores[min(requested, capacity) * 100 // capacity]

    def many(self, requested: Column, offered: Offered) -> Column:
        utilization = offered.percent(requested)
        return self._column[utilization.astype(np.int64)]

    def together(self, scores: Sequence[tuple[int, int]]) -> int:
        counting = [(score, weight) for score, weight in scores if score > 0]
        weights = sum(weight for _, weight in counting)
        total = sum(score * weight for score, weight in counting)
        return (2 * total + weights) // (2 * weights) if weights else 0

    def all_together(self, scores: Column, weights: Sequence[int], missing: Mask | None) -> IntColumn:
        total, counted = _weighted(
            scores, weights, scores > 0 if missing is None else (scores > 0) & ~missing
        )
        divisor = np.maximum(counted, 1)
        rounded: IntColumn = (2 * total + divisor) // (2 * divisor)
        return np.where(total > 0, rounded, 0)


def strategy_of(config: ScoringStrategy) -> Strategy:
    """The strategy that the arguments name."""
    if config.type == LEAST_ALLOCATED:
        return LeastAllocated()
    if config.type == MOST_ALLOCATED:
        return MostAllocated()
    ratio = config.requested_to_capacity_ratio
    if ratio is None or not ratio.shape:
        raise ValueError(
            "scoringStrategy.requestedToCapacityRatio.shape: at least one point must be specified"
        )
    return RequestedToCapacityRatio(ratio.shape)


def _interpolate(shape: Sequence[UtilizationShapePoint], utilization: int) -> int:
    if utilization <= shape[0].utilization:
        return shape[0].score * _SCORE_SCALE
    for left, right in pairwise(shape):
        if utilization <= right.utilization:
            rise = (right.score - left.score) * _SCORE_SCALE * (utilization - left.utilization)
            width = right.utilization - left.utilization
            step = abs(rise) // width
            return left.score * _SCORE_SCALE + (step if rise >= 0 else -step)
    return shape[-1].score * _SCORE_SCALE


def _weighted(scores: Column, weights: Sequence[int], counts: Mask) -> tuple[Column, IntColumn]:
    """The sum of the scores that count, and of their weights."""
    counted = np.where(counts, np.array(weights)[:, None], 0)
    return (scores * counted).sum(axis=0), counted.sum(axis=0)
