"""A report of runs that belong to none of the paper's tables: of own data, of other tasks and of fairseq's models."""

from typing import Any, Dict, List, Sequence

from .groups import Group
from .rows import describe_experiment, reported_split
from .run import SPEED, Run
from .series import count_every_step, group_repeats
from .tables import Column, Table
from .tradeoff import METRICS

# What validations log besides metrics of the task, and what other columns say already
LEFT_OUT = (
    *("num_updates", "ntokens", "nsentences", "nll_loss", "mAP_classes", "budget_loss", "cost_per_sample"),
    *("updates", "updates_std", "update_fraction", "increment", "increment_std", "flops"),
    *SPEED,
)
STYLES = {"solved": "yes_no"}  # metrics that are printed in another style than numbers
USED = (Column("samples used", "update_fraction", ".1%"), Column("samples used per sequence", "updates", ".1f"))


def make_plain_tables(runs: Sequence[Run]) -> List[Any]:
    """A table without the paper's rows for every experiment, and its runs; the table's columns are the metrics that its
    runs have, and the samples used."""
    experiments: Dict[str, List[Run]] = {}
    for run in map(count_every_step, runs):
        experiments.setdefault(describe_experiment(run.options, data=True), []).append(run)
    return [(_make_table(experiment, found), found) for experiment, found in experiments.items()]


def _make_table(experiment: str, runs: Sequence[Run]) -> Table:
    options = runs[0].options
    logged = {name for run in runs for name in run.metrics}
    shown = [name for name in logged - {*LEFT_OUT} if not name.startswith(("_", "best_"))]
    metrics = [Column(name, name, STYLES.get(name, ".4g")) for name in sorted(shown, key=_place)]
    used = [column for column in USED if column.metric in logged]
    return Table(
        name=experiment,
        title=experiment,
        task=options["task"],
        condition={},
        settings={},
        spread="",
        columns=(*metrics, *used),
        rows=(),
        split=reported_split(options),
    )


def _place(metric: str):
    """Sorts the task's own metrics before losses, and those before any other."""
    known = (*METRICS, "solved", "loss", "task_loss")
    return known.index(metric) if metric in known else len(known), metric


def group_models(runs: Sequence[Run]) -> List[Group]:
    """A group for runs that repeat each other, named by the options in which models differ."""
    return [Group(repeats.label, None, list(repeats.runs)) for repeats in group_repeats(runs)]
