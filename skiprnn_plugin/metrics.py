"""From sums to the metrics that are logged. Means are ratios of sums, never means of means."""

import math
from typing import Any, Dict, Iterable

from fairseq.logging import metrics
from torch import Tensor


def update_sums(updates: Tensor, steps: Tensor, flops_per_update: int) -> Dict[str, Any]:
    """Sums over a batch that :func:`log_updates` needs, from ``updates`` [B, T] and real ``steps`` [B]."""
    count = updates.detach().sum(1).double()  # float32 cannot hold the sum of squares of long sequences
    total = count.sum()
    return {
        "updates": total,
        "updates_squared": count.square().sum(),
        "steps": steps.sum(),
        "flops": total * flops_per_update,
    }


def add_up(logging_outputs: Iterable[Dict[str, Any]]) -> Dict[str, float]:
    """Sum the batches' logging outputs key by key, in double precision."""
    totals: Dict[str, float] = {}
    for output in logging_outputs:
        for name, value in output.items():
            totals[name] = totals.get(name, 0.0) + float(value)
    return totals


def log_mean(name: str, totals: Dict[str, float], numerator: str, denominator: str, priority: int = 20) -> None:
    """Log a ratio of two sums, weighted so that further batches keep it one; nothing if there was nothing to count."""
    weight = totals.get(denominator, 0.0)
    if weight > 0 and numerator in totals:
        metrics.log_scalar(name, totals[numerator] / weight, weight, priority=priority)


def log_updates(totals: Dict[str, float]) -> None:
    """Log ``updates`` and ``updates_std`` (mean and standard deviation over sequences of sum_t u_t),
    ``update_fraction`` (of all real steps) and ``flops`` (mean per sequence, by the paper's count)."""
    log_mean("updates", totals, "updates", "nsentences")
    log_mean("_updates_squared", totals, "updates_squared", "nsentences")  # names with a _ are not shown
    log_mean("update_fraction", totals, "updates", "steps")
    log_mean("flops", totals, "flops", "nsentences", priority=30)
    if totals.get("nsentences", 0) > 0:
        metrics.log_derived("updates_std", _updates_std, priority=21)


def _updates_std(meters) -> float:
    return math.sqrt(max(meters["_updates_squared"].avg - meters["updates"].avg ** 2, 0.0))
