"""Mean average precision over a whole set, computed as in Charades' official program (``Charades_v1_localize.m``)."""

from dataclasses import dataclass
from numbers import Number
from typing import Iterable, Tuple

import numpy as np


def average_precision(scores: np.ndarray, targets: np.ndarray) -> float:
    """Mean over the positives of the precision at their rank, without interpolation: (1 / P) sum_i i / rank_i.

    Ranks are those of a stable descending sort: equal scores keep their order.

    Args:
        scores: scores of one class at N points, [N].
        targets: whether the class is present at each point, bool [N].

    Returns:
        The mean, or NaN if there are no positives or a score is NaN.
    """
    if np.isnan(scores).any():
        return float("nan")
    order = np.argsort(-scores, kind="stable")
    ranks = np.flatnonzero(targets[order]) + 1
    return float(np.mean(np.arange(1, len(ranks) + 1) / ranks)) if len(ranks) else float("nan")


def average_precisions(scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """:func:`average_precision` of each class, float64 [C].

    Args:
        scores: [N, C].
        targets: bool [N, C].

    Raises:
        ValueError: the shapes differ or have another number of dimensions.
    """
    if scores.ndim != 2 or scores.shape != targets.shape:
        raise ValueError(f"targets: expected scores and targets [N, C], got {scores.shape} and {targets.shape}")
    return np.array([average_precision(*columns) for columns in zip(scores.T, targets.T)])


def mean_average_precision(scores: np.ndarray, targets: np.ndarray) -> float:
    """Mean of :func:`average_precisions` (which has the same arguments) over the classes with positives; NaN if there
    are none."""
    precisions = average_precisions(scores, targets)[targets.any(0)]
    return float(precisions.mean()) if len(precisions) else float("nan")


@dataclass(frozen=True, eq=False)
class ScoredPoints(Number):
    """The scored points of a batch of V sequences with N points each, for the mean average precision of the whole set.

    A batch logs this object among numbers. Progress bars format it as a number, so it is one: the count of its points.

    Attributes:
        ids: numbers of the sequences in the set, [V].
        scores: float32 [V, N, C].
        targets: bool [V, N, C].
    """

    ids: np.ndarray
    scores: np.ndarray
    targets: np.ndarray

    def __float__(self) -> float:
        return float(self.targets[..., 0].size)

    def __format__(self, spec: str) -> str:
        return format(float(self), spec)


def pool(batches: Iterable[ScoredPoints]) -> Tuple[np.ndarray, np.ndarray]:
    """Scores and targets of all points, [points, C], ordered by the sequences' numbers. A sequence counts once, even if
    several batches contain it."""
    places = {number: (batch, row) for batch in batches for row, number in enumerate(batch.ids.tolist())}
    ordered = [places[number] for number in sorted(places)]
    return (
        np.concatenate([batch.scores[row] for batch, row in ordered]),
        np.concatenate([batch.targets[row] for batch, row in ordered]),
    )
