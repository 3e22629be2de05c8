"""``skiprnn-plot classes``: how well a trained model knows each class, over a held-out split."""

import argparse
import math
from pathlib import Path
from typing import NamedTuple, Sequence

import numpy as np

from ...arguments import UserError
from ...average_precision import average_precisions, pool
from ...runs.checkpoint import (
    Loaded,
    add_loading_arguments,
    check_split,
    iterate_batches,
    load_checkpoint,
    prepare_loading,
    run_model,
)
from ...runs.find import find_checkpoint
from ...runs.rows import describe_experiment
from ...runs.run import Run
from ...runs.series import group_series, label_runs
from ..command import as_table
from .figures import COLORS, add_legend, check_output, new_figure, save

HELP = "draw the average precision of each class or, where sequences have one label each, the accuracy in each class"
ROWS, MOST_COLUMNS = 55, 3  # of bars in a column, while there are no more columns than this
ROOMY = 20  # rows in a column that have room for larger letters
LETTERS = 72  # of classes' names, in a row of all columns


class Metric(NamedTuple):
    """The name of a metric for one class, its name over all classes, and what it counts."""

    name: str
    overall: str
    unit: str


PRECISION = Metric("average precision", "mAP", "points")
ACCURACY = Metric("accuracy", "accuracy", "sequences")


class Classes(NamedTuple):
    """What is drawn: the P classes that have positives, best first.

    Attributes:
        metric: what the values are.
        names: P of them.
        values: [P].
        positives: points, or sequences, that have the class, [P].
        classes: the number of all classes, with those without positives.
        count: all points, or sequences.
        overall: the metric that validation logs.
    """

    metric: Metric
    names: Sequence[str]
    values: np.ndarray
    positives: np.ndarray
    classes: int
    count: int
    overall: float

    @property
    def chance(self) -> np.ndarray:
        """The share of positives: about the metric of a model that knows how frequent classes are, and no more, [P]."""
        return self.positives / self.count


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="a checkpoint (*.pt), or a save-dir for its last one")
    parser.add_argument("--output", type=Path, default=Path("classes.png"), help="default: %(default)s")
    parser.add_argument("--split", default="valid", help="held-out split (default: %(default)s)")
    add_loading_arguments(parser)


def run(args: argparse.Namespace) -> str:
    """Draw the figure; returns its numbers as a table."""
    check_output(args.output)
    check_split(args.split)
    loaded = load_checkpoint(find_checkpoint(args.checkpoint), args.split, prepare_loading(args))
    classes = measure(loaded)
    ((label, *_),) = group_series([Run(loaded.path, loaded.options, {}, None)])
    model = label_runs(label, loaded.options)
    save(draw(classes, f"{describe_experiment(loaded.options)}, split {args.split}, {model}"), args.output)
    rows = zip(classes.names, classes.values, classes.chance, classes.positives)
    lines = [[name, f"{value:.4f}", f"{chance:.4f}", str(positives)] for name, value, chance, positives in rows]
    return as_table(["class", classes.metric.name, "chance", classes.metric.unit], lines)


def measure(loaded: Loaded) -> Classes:
    """Run the whole held-out split through the model."""
    predicts = getattr(loaded.task, "predicts", None)  # which fairseq's own tasks don't say
    if predicts == "labels":
        return measure_precision(loaded)
    if predicts == "classes" and not loaded.task.per_step:
        return measure_accuracy(loaded)
    raise UserError(
        f"{loaded.path}: expected a model that predicts labels, or the class of a sequence, got one of task "
        f"{loaded.options['task']}"
    )


def measure_precision(loaded: Loaded) -> Classes:
    """The average precision of each class, over the points that validation's ``mAP`` is over."""
    from ...criterions.binary_cross_entropy_with_budget import score_points

    batches = []
    for sample in iterate_batches(loaded):
        if "points" not in sample:
            raise UserError(f"{loaded.path}: split {loaded.split} has no points to be evaluated at")
        batches.append(score_points(run_model(loaded, sample)[0].prediction, sample))
    scores, targets = pool(batches)
    positives, precisions = targets.sum(0), average_precisions(scores, targets)
    if not positives.any():
        raise UserError(f"{loaded.path}: no point of split {loaded.split} has any of the {len(positives)} classes")
    _check_numbers(loaded, precisions[positives > 0])
    return sort(loaded, PRECISION, precisions, positives, len(targets), precisions[positives > 0].mean())


def measure_accuracy(loaded: Loaded) -> Classes:
    """The accuracy in each class, where every sequence has one label."""
    import torch

    batches = [(run_model(loaded, sample)[0].prediction, sample["target"]) for sample in iterate_batches(loaded)]
    logits, target = (torch.cat(column).cpu().numpy() for column in zip(*batches))
    _check_numbers(loaded, logits)
    predicted = logits.argmax(-1)
    correct, positives = (
        np.bincount(classes, minlength=loaded.task.output_size) for classes in (target[predicted == target], target)
    )
    return sort(
        loaded, ACCURACY, correct / np.maximum(positives, 1), positives, len(target), np.mean(predicted == target)
    )


def _check_numbers(loaded: Loaded, values: np.ndarray) -> None:
    if np.isnan(values).any():
        raise UserError(f"{loaded.path}: expected a model that predicts numbers, got nan")


def sort(
    loaded: Loaded, metric: Metric, values: np.ndarray, positives: np.ndarray, count: int, overall: float
) -> Classes:
    """From the values and positives of all classes, [C]."""
    names = loaded.task.class_names or range(len(values))
    order = [number for number in np.argsort(-values, kind="stable") if positives[number]]
    listed = [str(names[number]) for number in order]
    return Classes(metric, listed, values[order], positives[order], len(values), count, float(overall))


def draw(classes: Classes, title: str):
    """A matplotlib figure: a bar for each class, in as many columns as it takes."""
    size, (name, overall, unit) = len(classes.values), classes.metric
    columns = min(math.ceil(size / ROWS), MOST_COLUMNS)
    rows = math.ceil(size / columns)
    font = 9 if rows <= ROOMY else 6.5
    figure = new_figure(height=1.5 + rows * font / 45)
    panels = figure.subplots(1, columns, sharex=True, squeeze=False)[0]
    legend = (
        f"{name}, and at the right how many {unit} have the class",
        f"chance: the class's share of all {classes.count:,} {unit}",
        f"{overall} over these classes",
    )
    for column, panel in enumerate(panels):
        _draw_column(panel, classes, slice(column * rows, (column + 1) * rows), font, LETTERS // columns)
        panel.set_ylim(rows - 0.4, -0.6)  # all columns alike
    for artist, label in zip((panels[0].containers[0], *panels[0].lines), legend):
        artist.set_label(label)
    room = 1.1 + 0.1 * columns  # for the numbers
    panels[0].set_xlim(0, room * max(classes.values.max(), classes.chance.max()))
    others = f"; no {unit[:-1]} has the others" if size < classes.classes else ""
    caption = f"{overall} {classes.overall:.4g}, {size} of {classes.classes} classes{others}"
    figure.suptitle(f"{title}\n{caption}", x=0.01, ha="left", fontsize=10)
    add_legend(figure, legend)
    return figure


def _draw_column(panel, classes: Classes, part: slice, font: float, letters: int) -> None:
    """Bars, chance and mean of some of the classes, with names of at most ``letters`` letters."""
    values, chance, positives = classes.values[part], classes.chance[part], classes.positives[part]
    places = np.arange(len(values))
    panel.barh(places, values, color=COLORS[5], height=0.75)
    panel.plot(chance, places, "|", color="black", markersize=font)
    panel.axvline(classes.overall, color=COLORS[1], linewidth=1, linestyle="--")
    for place, count in zip(places, positives):
        panel.text(1, place, f"{count:,}", transform=panel.get_yaxis_transform(), ha="right", va="center", size=font)
    names = [shorten(name, letters) for name in classes.names[part]]
    panel.set_yticks(places, names, size=font, parse_math=False)  # names may contain a $
    panel.tick_params(axis="y", length=0)
    panel.tick_params(axis="x", labelsize=8)
    panel.spines[["top", "right"]].set_visible(False)


def shorten(name: str, letters: int) -> str:
    return name if len(name) <= letters else f"{name[: letters - 1]}…"
