"""How a metric of runs changes over training."""

from typing import List, NamedTuple, Sequence, Tuple

import numpy as np

from ..arguments import UserError
from .run import History
from .series import group_repeats
from .tradeoff import list_metrics


class Curve(NamedTuple):
    """Runs that repeat each other.

    Attributes:
        label: for the legend.
        rule: see :class:`skiprnn_plugin.runs.series.Series`.
        x: training updates or epochs, [N]: those at which all runs were validated.
        y: the metric, [runs, N].
    """

    label: str
    rule: str
    x: np.ndarray
    y: np.ndarray


def collect_curves(histories: Sequence[History], metric: str, over: str, *, skip_missing: bool = False) -> List[Curve]:
    """The curves of a metric over ``num_updates`` or ``epoch``, in the order of the runs.

    Raises:
        UserError: a run does not tell its epochs, or has no such metric; ``skip_missing`` leaves its model out instead.
    """
    for history in histories:
        if any(over not in validation for validation in history.validations):
            raise UserError(f"--over: expected updates, as {history.path} does not tell the epoch of a validation")
        if not (has_metric(history, metric) or skip_missing):
            known = list_metrics(validation for run in histories for validation in run.validations)
            raise UserError(
                f"{history.path}: expected a metric that all its validations have, got {metric!r}; those of these runs "
                f"have: {known}"
            )
    return [
        Curve(repeats.label, repeats.rule, *_join(repeats.runs, metric, over))
        for repeats in group_repeats(histories)
        if all(has_metric(run, metric) for run in repeats.runs)
    ]


def has_metric(history: History, metric: str) -> bool:
    return all(metric in validation for validation in history.validations)


def _join(runs: Sequence[History], metric: str, over: str) -> Tuple[np.ndarray, np.ndarray]:
    # If an epoch has several validations, the last one counts
    values = [{validation[over]: validation[metric] for validation in run.validations} for run in runs]
    x = sorted(set.intersection(*map(set, values)))
    if not x:
        raise UserError(
            f"{runs[-1].path}: expected a validation at the same {over} as in {runs[0].path}, which it repeats"
        )
    return np.array(x), np.array([[metrics[place] for place in x] for metrics in values])
