"""``skiprnn-plot classes``: how well a trained model knows each class, over a held-out split."""

import argparse
import math

import numpy as np

from ...runs.checkpoint import load_checkpoint
from ...runs.classes import ACCURACY, Classes, measure
from ...runs.find import find_named_checkpoint
from ...runs.rows import name_experiment
from ...runs.run import Run
from ...runs.series import group_repeats
from ..command import as_table
from ..loading import CHECKPOINT_HELP, add_loading_arguments, add_split_argument, check_split, prepare_loading
from .elements import add_legend, add_title, get_cycle, get_points, get_width, new_figure
from .figures import add_picture_arguments, check_picture, choose_title, write_picture

HELP = "draw the average precision of each class or, where sequences have one label each, the accuracy in each class"
ROWS, WIDTH = 55, 2.3  # the most bars in a column, if the width has room for several columns, and a column's inches
ROOMY = 20  # a column of at most this many bars has room for larger letters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help=CHECKPOINT_HELP)
    add_picture_arguments(parser, "classes.png")
    add_split_argument(parser)
    add_loading_arguments(parser)


def run(args: argparse.Namespace) -> str:
    """Draw the figure; returns its numbers as a table."""
    look = check_picture(args)
    check_split(args.split)
    loaded = load_checkpoint(find_named_checkpoint(args.checkpoint), args.split, prepare_loading(args))
    classes = measure(loaded)
    (repeats,) = group_repeats([Run(loaded.path, loaded.options, {}, None)])
    model = f"{name_experiment(loaded.options)}, split {args.split}, {repeats.label}"
    title = choose_title(args, f"{model}\n{_summarize(classes)}")
    write_picture(lambda: draw(classes, title), args.output, look)
    rows = zip(classes.names, classes.values, classes.chance, classes.positives)
    lines = [[name, f"{value:.4f}", f"{chance:.4f}", str(positives)] for name, value, chance, positives in rows]
    return as_table(["class", classes.metric.name, "chance", classes.metric.unit], lines)


def _summarize(classes: Classes) -> str:
    size, (_, overall, unit) = len(classes.values), classes.metric
    others = f"; no {unit[:-1]} has the others" if size < classes.classes else ""
    return f"{overall} {classes.overall:.4g}, {size} of {classes.classes} classes{others}"


def draw(classes: Classes, title: str):
    """A matplotlib figure: a bar for each class, in several columns if there are many and the width has room."""
    size, (name, overall, unit) = len(classes.values), classes.metric
    columns = min(math.ceil(size / ROWS), max(int(get_width() / WIDTH), 1))
    rows = math.ceil(size / columns)
    font = get_points("ytick.labelsize") * (1 if rows <= ROOMY else 0.75)
    figure = new_figure(height=0.5 + rows * 1.6 * font / 72)
    panels = figure.subplots(1, columns, sharex=True, squeeze=False)[0]
    letters = int(0.42 * get_width() / columns / (0.55 * font / 72))  # a letter is about half as wide as high
    drawn = [
        _draw_column(panel, classes, slice(column * rows, (column + 1) * rows), font, letters)
        for column, panel in enumerate(panels)
    ]
    for panel in panels:
        panel.set_ylim(rows - 0.4, -0.6)  # the same in all columns
    # An average precision may be far from 1 in all classes
    panels[0].set_xlim(0, 1 if classes.metric == ACCURACY else 1.02 * max(classes.values.max(), classes.chance.max()))
    labels = (
        f"{name}, and at the right how many {unit} have the class",
        f"chance: the class's share of all {classes.count:,} {unit}",
        f"{overall} over these classes",
    )
    add_legend(figure, drawn[0], labels)
    add_title(figure, title)
    return figure


def _draw_column(panel, classes: Classes, part: slice, font: float, letters: int):
    """Bars, chance and mean of some of the classes, with names of at most ``letters`` letters; returns what is drawn of
    each."""
    values, chance, positives = classes.values[part], classes.chance[part], classes.positives[part]
    places, colors = np.arange(len(values)), get_cycle()
    bars = panel.barh(places, values, color=colors[5 % len(colors)], height=0.75)
    (marks,) = panel.plot(chance, places, "|", color="black", markersize=font, clip_on=False)
    line = panel.axvline(classes.overall, color=colors[1 % len(colors)], linewidth=1, linestyle="--")
    for place, count in zip(places, positives):  # beside the axis, which ends at 1
        panel.annotate(
            f"{count:,}", (1, place), (4, 0), panel.get_yaxis_transform(), "offset points", va="center", size=font
        )
    names = [shorten(name, letters) for name in classes.names[part]]
    panel.set_yticks(places, names, size=font, parse_math=False)  # names may contain a $
    panel.tick_params(axis="y", length=0)
    return bars, marks, line


def shorten(name: str, letters: int) -> str:
    return name if len(name) <= letters else f"{name[: letters - 1]}…"
