"""``skiprnn-plot curves``: a held-out metric over training, as mean and range of runs that repeat each other."""

import argparse
from typing import Optional, Sequence, Tuple

import numpy as np

from ...runs.curves import Curve, collect_curves
from ...runs.find import find_files, find_history
from ...runs.history import read_history
from ...runs.rows import name_experiment
from ...runs.tradeoff import LOGARITHMIC, METRICS, find_experiment, find_metric
from ..command import as_table
from .elements import add_legend, add_title, get_cycle, get_width, limit_ticks, name_metric, new_figure, set_limits
from .figures import add_picture_arguments, check_picture, choose_title, write_picture

HELP = "draw a metric of runs over training"

OVER = {"updates": "num_updates", "epochs": "epoch"}
HEADINGS = {"updates": "training updates", "epochs": "epochs"}
LINES = {"learned": "-", "target": "-.", "random": ":", "full": "--"}  # by update rule
MARKERS = ("", "o", "s", "^")  # lines of the same colour differ in these, a few along the line
FEW = 3  # a line through this many validations or fewer is hard to see


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs",
        metavar="RUN",
        nargs="+",
        help="a log of fairseq-train --log-format json (all of a resumed run in one file), a save-dir for its *.log, "
        "or a folder of skiprnn-train",
    )
    parser.add_argument(
        "--metric", help=f"logged metric to draw (default: the first of {', '.join(METRICS)} that all runs have)"
    )
    parser.add_argument("--over", choices=tuple(OVER), default="updates", help="horizontal axis (default: %(default)s)")
    add_picture_arguments(parser, "curves.png")
    parser.add_argument("--split", default="valid", help="logged split, which may be train (default: %(default)s)")


def run(args: argparse.Namespace) -> str:
    """Draw the figure; returns where the curves end, as a table."""
    look = check_picture(args)
    histories = [read_history(file, args.split) for file in find_files(args.runs, find_history)]
    find_experiment(histories)
    metric = args.metric or find_metric(histories)
    curves = collect_curves(histories, metric, OVER[args.over])
    title = choose_title(args, f"{name_experiment(histories[0].options)}, split {args.split}{_count_runs(curves)}")
    write_picture(lambda: draw(curves, metric, args.over, title), args.output, look)
    lines = [
        [curve.label, str(int(curve.x[-1])), f"{curve.y[:, -1].mean():.4g}", str(len(curve.y))] for curve in curves
    ]
    return as_table(["model", HEADINGS[args.over], metric, "runs"], lines)


def _count_runs(curves: Sequence[Curve]) -> str:
    """The end of a title that says what the shades show; empty if there are none."""
    counts = sorted({len(curve.y) for curve in curves})
    return "" if counts == [1] else f"; mean and range of {' or '.join(map(str, counts))} runs"


def draw(curves: Sequence[Curve], metric: str, over: str, title: str):
    """A matplotlib figure: a line for each mean, a shade from the lowest to the highest run."""
    figure, colors = new_figure(height=1.25 + 0.27 * get_width()), get_cycle()
    axes = figure.subplots()
    lines = [_draw_curve(axes, index, curve, colors) for index, curve in enumerate(curves)]
    axes.set_xlabel(HEADINGS[over])
    axes.set_ylabel(name_metric(metric))
    if metric in LOGARITHMIC:
        axes.set_yscale("log")
    axes.margins(x=0.02)
    axes.grid(True)
    limit_ticks(axes, integer=True)
    set_limits(axes.yaxis, metric, np.concatenate([curve.y.ravel() for curve in curves]))
    add_legend(figure, lines, [curve.label for curve in curves])
    add_title(figure, title)
    return figure


def _draw_curve(axes, index: int, curve: Curve, colors: Sequence):
    """Draw a curve, and the shade of its runs; returns its line."""
    color, marker = colors[index % len(colors)], MARKERS[index // len(colors) % len(MARKERS)]
    if len(curve.x) <= FEW:
        marker = marker or "o"
    if len(curve.y) > 1:
        axes.fill_between(curve.x, curve.y.min(0), curve.y.max(0), color=color, alpha=0.18, linewidth=0)
    (line,) = axes.plot(
        curve.x,
        curve.y.mean(0),
        color=color,
        linestyle=LINES[curve.rule],
        marker=marker,
        markevery=_spaced(len(curve.x), index),
        markersize=3.5,
        label=curve.label,
        clip_on=False,
    )
    return line


def _spaced(count: int, index: int) -> Optional[Tuple[int, int]]:
    """First marker and distance of markers: about ten along the line, at different places for different lines."""
    every = max(count // 10, 1)
    return (index % every, every)
