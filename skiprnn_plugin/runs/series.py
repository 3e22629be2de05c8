"""Groups runs for figures: those that repeat each other, and those of a model under several lambdas or update rules."""

import math
from dataclasses import fields, replace
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

from ..dials import DIALS, find_dials
from .rows import describe_dials
from .run import DATA, Run
from .tables import plain

# Runs that differ only in these options repeat each other
REPEATED = ("seed", "num_updates", "stop_update_fraction", "engine", "data_dir", "good_at_least", "good_at_most")
EVALUATED = ("eval_bleu", "eval_tokenized", "eval_wer")  # and in options that begin so, which add metrics
# Runs that differ only in these options too are of one model: with another update rule, or with more or fewer updates
SWEPT = ("arch", "update_rule", "cost_per_sample", "target_fraction", "skip_prob")


class Series(NamedTuple):
    """Runs of one model under one rule; if runs differ in dials, of one trained model with different values of them.
    Runs of different data are of different models, if all runs are checkpoints.

    Attributes:
        label: for the legend.
        model: number of the model, from 0; the same for its baselines.
        rule: ``learned``, ``target`` (learned, with lambda adjusted towards a fraction), ``random`` or ``full``.
        points: one for the runs that repeat each other, sorted by the option in which points differ: a list of these
            runs, or what is drawn of them.
    """

    label: str
    model: int
    rule: str
    points: List[Any]


class Repeats(NamedTuple):
    """Runs that repeat each other.

    Attributes:
        label: their whole name: the label of their series, and what tells them from others of the series.
        rule: see :class:`Series`.
        runs: the runs.
    """

    label: str
    rule: str
    runs: List[Run]


def group_repeats(runs: Sequence[Run]) -> Iterator[Repeats]:
    """The runs that repeat each other, in the order of :func:`group_series`."""
    for series in group_series(runs):
        for repeated in series.points:
            label = ", ".join(filter(None, (series.label, label_point(repeated[0].options))))
            yield Repeats(label, series.rule, repeated)


def group_series(runs: Sequence[Run]) -> Iterator[Series]:
    """The series of runs, in the order in which runs of them come first."""
    has_dials = is_sweep(runs)
    # Logs do not tell the data, so runs that repeat a log's can't be told apart by them
    ignored = REPEATED if all(DATA in run.options for run in runs) else (*REPEATED, DATA)
    models: Dict[Any, Run] = {}
    grouped: Dict[Any, Dict[Any, List[Run]]] = {}
    for run in runs:
        swept = SWEPT if "update_rule" in run.options else ("cost_per_sample", "target_fraction")
        swept = (*DIALS, *(() if has_dials else swept))
        options = {**_defaults(run.options), **run.options}  # older versions' runs lack newer options
        # As text, as a checkpoint has other types of list than a log
        names = sorted({*options} - {*ignored, *swept})
        model = tuple((name, plain(options[name])) for name in names if not name.startswith(EVALUATED))
        models.setdefault(model, run)
        points = grouped.setdefault((model, _rule(run.options)), {})
        value = _dial_values(run.options) if has_dials else _swept_value(run.options)
        points.setdefault(value, []).append(run)
    names, numbers = _name_models(models), {model: index for index, model in enumerate(models)}
    for (model, rule), points in grouped.items():
        label = names[model] if "cell" not in models[model].options else _LABELS[rule].format(names[model])
        yield Series(label, numbers[model], rule, [points[value] for value in sorted(points)])


def _defaults(options: Mapping[str, Any]) -> Dict[str, Any]:
    """Defaults of the options of a run's model, criterion and task, except those of a plugin that is not loaded."""
    from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
    from fairseq.models import ARCH_MODEL_NAME_REGISTRY, MODEL_DATACLASS_REGISTRY
    from fairseq.tasks import TASK_DATACLASS_REGISTRY

    dataclasses = (
        MODEL_DATACLASS_REGISTRY.get(ARCH_MODEL_NAME_REGISTRY.get(options["arch"], options["arch"])),
        CRITERION_DATACLASS_REGISTRY.get(options["criterion"]),
        TASK_DATACLASS_REGISTRY.get(options["task"]),
    )
    return {option.name: option.default for known in filter(None, dataclasses) for option in fields(known)}


_LABELS = {
    "learned": "Skip {}",
    "target": "Skip {}, to a target",
    "random": "{}, random skips",
    "full": "{}, every sample",
}


def _name_models(models: Mapping[Any, Run]) -> Dict[Any, str]:
    """The name of each model: its cell, or a user's own architecture, and the options that others of that name lack."""
    short = {model: _name_cell(run.options) for model, run in models.items()}
    alike = {
        name: set.intersection(*(set(model) for model in models if short[model] == name)) for name in short.values()
    }
    return {
        model: ", ".join([name, *(_describe_option(models[model], *pair) for pair in model if pair not in alike[name])])
        for model, name in short.items()
    }


def _name_cell(options: Mapping[str, Any]) -> str:
    return options["cell"].upper() if "cell" in options else options["arch"]


def _describe_option(run: Run, name: str, value: Any) -> str:
    if name == DATA:  # the value is a number that says nothing to a reader
        return f"data of {run.path.parent if run.path.name.startswith('checkpoint_') else run.path}"
    return f"{name.replace('_', ' ')} {value}"


def count_every_step(run: Run) -> Run:
    """The run with an ``update_fraction`` of 1 if its model updates at every step, as fairseq's own models do, and none
    was logged."""
    if "update_fraction" in run.metrics or not _updates_every_step(run.options):
        return run
    return replace(run, metrics={**run.metrics, "update_fraction": 1.0})


def _updates_every_step(options: Mapping[str, Any]) -> bool:
    from fairseq.models import ARCH_MODEL_REGISTRY

    model = ARCH_MODEL_REGISTRY.get(options["arch"])
    return options.get("update_rule") == "full" or model is not None and model.__module__.startswith("fairseq.")


def _rule(options: Mapping[str, Any]) -> str:
    if options.get("target_fraction") is not None:
        return "target"
    # A user's own model has no update rule; fairseq's models and criterions have no lambda either
    return options.get("update_rule", "learned" if "cost_per_sample" in options else "full")


def _swept_value(options: Mapping[str, Any]) -> float:
    name = {"learned": "cost_per_sample", "target": "target_fraction", "random": "skip_prob"}.get(_rule(options))
    return options.get(name, 0)


def is_sweep(runs: Sequence[Run]) -> bool:
    """Whether runs differ in dials."""
    return len({str(find_dials(run.options)) for run in runs}) > 1


def _dial_values(options: Mapping[str, Any]) -> Tuple[float, ...]:
    """The values of the dials, such that they can be sorted: no limit is an infinite one."""
    values = (options.get(name, default) for name, default in DIALS.items())
    return tuple(math.inf if value is None else value for value in values)


def label_point(options: Mapping[str, Any]) -> str:
    """What tells a point from others of its series; empty for a rule whose series have only one point."""
    label = {"learned": "λ={}", "target": "target {}", "random": "p={}", "full": ""}[_rule(options)]
    return ", ".join(filter(None, [label.format(plain(_swept_value(options))), *describe_dials(options)]))


def label_dials(options: Mapping[str, Any]) -> str:
    """What tells a point from others of a series whose points differ in dials."""
    return ", ".join(describe_dials(options)) or "as trained"
