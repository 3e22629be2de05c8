"""``skiprnn-plot classes``: how well a trained model knows each class, over a held-out split."""

import argparse
import math

import numpy as np

from ...runs.checkpoint import load_checkpoint
from ...runs.classes import Classes, measure
from ...runs.find import find_checkpoint
from ...runs.rows import describe_experiment
from ...runs.run import Run
from ...runs.series import group_series, label_runs
from ..command import as_table
from ..loading import CHECKPOINT_HELP, add_loading_arguments, add_split_argument, check_split, prepare_loading
from .figures import COLORS, add_legend, add_output_argument, check_output, new_figure, save

HELP = "draw the average precision of each class or, where sequences have one label each, the accuracy in each class"
ROWS, MOST_COLUMNS = 55, 3  # bars in a column (more, if that many columns do not hold all classes), and columns
ROOMY = 20  # a column of at most this many bars has room for larger letters
LETTERS = 72  # the most letters of a class's name, divided by the number of columns


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help=CHECKPOINT_HELP)
    add_output_argument(parser, "classes.png")
    add_split_argument(parser)
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


def draw(classes: Classes, title: str):
    """A matplotlib figure: a bar for each class, in several columns if there are many."""
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
        panel.set_ylim(rows - 0.4, -0.6)  # the same in all columns
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
