"""The metrics that are logged, computed from sums. Means are ratios of sums, never means of means."""

import math
from functools import partial
from typing import Any, Dict, Iterable, List, Optional

import numpy as np
from fairseq.logging import metrics
from fairseq.logging.meters import MetersDict
from torch import Tensor

from .average_precision import ScoredPoints, mean_average_precision, pool

UPDATE_SUMS = ("updates", "updates_squared", "steps", "flops", "increments", "increment", "increment_squared")


def update_sums(count: Tensor, steps: Tensor, flops: Tensor, increment: Optional[Tensor]) -> Dict[str, Any]:
    """Sums over a batch that :func:`log_updates` needs, by the names ``UPDATE_SUMS``.

    Args:
        count: updates of each sequence, [B].
        steps: real steps of each sequence, [B].
        flops: multiply-accumulates of each sequence, [B].
        increment: update probabilities at the end of the sequences, any shape; None without a gate.
    """
    count = count.detach().double()  # float32 cannot hold the sum of squares of long sequences
    increment = count.new_empty(0) if increment is None else increment.detach().double()
    return {
        "updates": count.sum(),
        "updates_squared": count.square().sum(),
        "steps": steps.sum(),
        "flops": flops.detach().double().sum(),
        "increments": increment.numel(),
        "increment": increment.sum(),
        "increment_squared": increment.square().sum(),
    }


def add_up(logging_outputs: Iterable[Dict[str, Any]]) -> Dict[str, float]:
    """Sum the batches' logging outputs key by key, in double precision."""
    totals: Dict[str, float] = {}
    for output in logging_outputs:
        for name, value in output.items():
            totals[name] = totals.get(name, 0.0) + float(value)
    return totals


def log_mean(name: str, totals: Dict[str, float], numerator: str, denominator: str, priority: int = 20) -> None:
    """Log a ratio of two sums, with the denominator as weight, so that it stays a ratio of sums over further batches.
    Log nothing if the denominator is 0."""
    weight = totals.get(denominator, 0.0)
    if weight > 0 and numerator in totals:
        metrics.log_scalar(name, totals[numerator] / weight, weight, priority=priority)


def log_updates(totals: Dict[str, float]) -> None:
    """Log ``updates`` and ``updates_std`` (mean and standard deviation over sequences of sum_t u_t),
    ``update_fraction`` (of all real steps), ``flops`` (mean per sequence, by the paper's count), and ``increment`` and
    ``increment_std``, mean and standard deviation of the update probability at the end of a sequence. A mean near 0 or
    1 with a deviation near 0 shows that the gate has saturated."""
    _log_mean_and_std("updates", totals, "updates", "nsentences")
    log_mean("update_fraction", totals, "updates", "steps")
    log_mean("flops", totals, "flops", "nsentences", priority=30)
    _log_mean_and_std("increment", totals, "increment", "increments")


def _log_mean_and_std(name: str, totals: Dict[str, float], numerator: str, denominator: str) -> None:
    log_mean(name, totals, numerator, denominator)
    # fairseq does not show names that begin with _
    log_mean(f"_{name}_squared", totals, f"{numerator}_squared", denominator)
    if totals.get(denominator, 0.0) > 0:
        metrics.log_derived(f"{name}_std", partial(_std, name), priority=21)


def _std(name: str, meters) -> float:
    return math.sqrt(max(meters[f"_{name}_squared"].avg - meters[name].avg ** 2, 0.0))


class AveragePrecisionMeter(MetersDict._DerivedMeter):  # fairseq does not save derived meters in checkpoints
    """Mean average precision of all points that were logged; meters of nested aggregators share the points."""

    def __init__(self):
        super().__init__(lambda meters: self.value())
        self.reset()

    def reset(self) -> None:
        self.batches: List[ScoredPoints] = []

    def update(self, points: ScoredPoints) -> None:
        self.batches.append(points)

    def value(self) -> float:
        return mean_average_precision(*pool(self.batches)) if self.batches else float("nan")

    def count_classes(self) -> int:
        """The number of classes with positives."""
        return int(np.any([batch.targets.any((0, 1)) for batch in self.batches], 0).sum())


def log_average_precision(points: Iterable[ScoredPoints]) -> None:
    """Log ``mAP``, the mean average precision over all points that have been logged, and ``mAP_classes``, the number
    of classes in that mean, which are those with positives. Log nothing if there are no points."""
    for batch in points:
        metrics.log_custom(AveragePrecisionMeter, "mAP", batch, priority=5)
        metrics.log_derived("mAP_classes", lambda meters: meters["mAP"].count_classes(), priority=6)


def forget_points() -> None:
    """Forget the points of a validation. Otherwise fairseq would keep them and add those of the next validation."""
    metrics.reset_meter("valid", "mAP")
