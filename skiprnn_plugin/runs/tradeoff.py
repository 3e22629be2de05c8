"""What ``skiprnn-plot tradeoff`` draws: runs as series of points, task metric against updates."""

import math
import re
from typing import Any, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..arguments import UserError
from .rows import TRAINING, describe_experiment, find_departures, find_row, find_table_of, name_experiment
from .run import SPEED, Run
from .series import Series, count_every_step, group_series, is_sweep, label_dials, label_point
from .tables import Table

# The first of these that all runs have is drawn
METRICS = ("mse", "bleu", "wer", "accuracy", "mAP", "ppl")
LOGARITHMIC = ("mse", "loss", "task_loss")
UPDATES = ("update_fraction", "updates")


class Point(NamedTuple):
    """Runs that repeat each other.

    Attributes:
        label: the text beside it.
        x, y: updates and task metric of each run.
        paper: x, the spread of x, and y as the paper printed them; None if it has no such model.
    """

    label: str
    x: List[float]
    y: List[float]
    paper: Optional[Tuple[float, float, float]]


class Tradeoff(NamedTuple):
    """What is drawn.

    Attributes:
        experiment: the experiment in words.
        updates: the metric on the horizontal axis, one of ``UPDATES``.
        metric: the metric on the vertical axis.
        solved: value of ``metric`` at which the task begins to count as solved; None if there is no such value.
        series: in the order of the runs; a point is a :class:`Point`.
    """

    experiment: str
    updates: str
    metric: str
    solved: Optional[float]
    series: List[Series]


def collect_tradeoff(runs: Sequence[Run], metric: Optional[str]) -> Tradeoff:
    """The trade-off that runs of one experiment show; ``metric`` None means the task's own metric."""
    runs = [count_every_step(run) for run in runs]
    find_experiment(runs)
    options = runs[0].options
    table = find_table_of(options)
    columns = table.columns if table else ()
    updates = next((column.metric for column in columns if column.metric in UPDATES), UPDATES[0])
    metric = metric or find_metric(runs)
    for name in (updates, metric):
        _check_metric(runs, name)
    solved = _find_solved(options, metric)

    def make_point(repeated: Sequence[Run]) -> Point:
        x, y = ([run.metrics[name] for run in repeated] for name in (updates, metric))
        paper = _find_paper(table, repeated[0].options, updates, metric, solved) if table else None
        chosen = repeated[0].options
        return Point(label_dials(chosen) if is_sweep(runs) else label_point(chosen), x, y, paper)

    series = [
        found._replace(points=[make_point(repeated) for repeated in found.points]) for found in group_series(runs)
    ]
    return Tradeoff(name_experiment(options), updates, metric, solved, series)


def find_experiment(runs: Sequence[Run]) -> str:
    """The experiment of all runs, by its options; :class:`UserError` for a run of another experiment than the first."""
    experiment = describe_experiment(runs[0].options)
    for run in runs:
        other = describe_experiment(run.options)
        if other != experiment:
            raise UserError(f"{run.path}: expected a run of task {experiment}, as {runs[0].path} is, got {other}")
    return experiment


def list_metrics(validations: Iterable[Mapping[str, float]]) -> str:
    """The metrics of the model that all validations have."""
    common = set.intersection(*map(set, validations)).difference(SPEED, ["num_updates", "epoch"])
    return ", ".join(sorted(name for name in common if not name.startswith("_")))


def find_metric(runs: Sequence[Run]) -> str:
    """The task's own metric; :class:`UserError` if there is none that all runs have."""
    for name in METRICS:
        if all(name in run.metrics for run in runs):
            return name
    raise UserError(f"--metric: needed for these runs; they have: {list_metrics(run.metrics for run in runs)}")


def _check_metric(runs: Sequence[Run], name: str) -> None:
    wanted = "above 0" if name in LOGARITHMIC else "that is finite"
    for run in runs:
        if name not in run.metrics:
            note = ", which a checkpoint gives, evaluated again" if name in UPDATES else ""
            known = list_metrics(run.metrics for run in runs)
            raise UserError(f"{run.path}: has no metric {name!r}{note}; these runs have: {known}")
        value = run.metrics[name]
        if not math.isfinite(value) or (name in LOGARITHMIC and value <= 0):
            raise UserError(f"{run.path}: expected a number {wanted} for {name}, got {value}")


def _find_solved(options: Mapping[str, Any], metric: str) -> Optional[float]:
    from fairseq.tasks import TASK_REGISTRY

    # None if a user's plugin is not loaded; fairseq's own tasks have no such value
    task = TASK_REGISTRY.get(options["task"])
    return task.solved_at(options).get(metric) if hasattr(task, "solved_at") else None


def _find_paper(
    table: Table, options: Mapping[str, Any], updates: str, metric: str, solved: Optional[float]
) -> Optional[Tuple[float, float, float]]:
    """The numbers of the row that a run repeats. Where the paper only says that the task is solved, y is the limit."""
    row = find_row(table, options)
    if row is None or set(find_departures(table, options)) - set(TRAINING):
        return None
    printed = {column.metric: row.paper.get(column.title, "") for column in table.columns}
    x, y = (_read_numbers(printed.get(name, "")) for name in (updates, metric))
    if not y and solved is not None and row.paper.get("solved") == "Yes":
        y = [solved]
    return (x[0], x[1] if len(x) > 1 else 0.0, y[0]) if x and y else None


def _read_numbers(printed: str) -> List[float]:
    """``50.7% ± 2.6%`` as [0.507, 0.026]."""
    return [float(number) / (100 if percent else 1) for number, percent in re.findall(r"([\d.]+)(%?)", printed)]
