"""``skiprnn-plot curves``: a held-out metric over training, as mean and range of runs that repeat each other."""

import argparse
from typing import Optional, Sequence, Tuple

from ...arguments import UserError
from ...runs.curves import Curve, collect
from ...runs.find import find_files, find_log, is_checkpoint
from ...runs.logs import read_history
from ...runs.tradeoff import LOGARITHMIC, METRICS, find_experiment, find_metric
from ..command import as_table
from .figures import COLORS, TITLES, add_legend, add_output_argument, check_output, new_figure, save

HELP = "draw a metric of runs over training, from their logs"

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
        help="a log of fairseq-train --log-format json (all of a resumed run in one file), or a save-dir for its *.log",
    )
    parser.add_argument(
        "--metric", help=f"logged metric to draw (default: the first of {', '.join(METRICS)} that all runs have)"
    )
    parser.add_argument("--over", choices=tuple(OVER), default="updates", help="horizontal axis (default: %(default)s)")
    add_output_argument(parser, "curves.png")
    parser.add_argument("--split", default="valid", help="logged split, which may be train (default: %(default)s)")


def run(args: argparse.Namespace) -> str:
    """Draw the figure; returns where the curves end, as a table."""
    check_output(args.output)
    files = find_files(args.runs, find_log)
    for file in files:
        if is_checkpoint(file):
            raise UserError(f"{file}: expected a log of fairseq-train, or a save-dir that holds one, got a checkpoint")
    histories = [read_history(file, args.split) for file in files]
    experiment = find_experiment(histories)
    metric = args.metric or find_metric(histories)
    curves = collect(histories, metric, OVER[args.over])
    save(draw(curves, metric, args.over, f"{experiment}, split {args.split}"), args.output)
    lines = [
        [curve.label, str(int(curve.x[-1])), f"{curve.y[:, -1].mean():.4g}", str(len(curve.y))] for curve in curves
    ]
    return as_table(["model", HEADINGS[args.over], metric, "runs"], lines)


def draw(curves: Sequence[Curve], metric: str, over: str, title: str):
    """A matplotlib figure: a line for each mean, a shade from the lowest to the highest run."""
    figure = new_figure(height=4.5)
    axes = figure.subplots()
    for index, curve in enumerate(curves):
        _draw_curve(axes, index, curve)
    axes.set_xlabel(HEADINGS[over])
    axes.set_ylabel(TITLES.get(metric, metric))
    counts = sorted({len(curve.y) for curve in curves})
    runs = "" if counts == [1] else f"; mean and range of {' or '.join(map(str, counts))} runs"
    axes.set_title(title + runs, loc="left", fontsize=10)
    if metric in LOGARITHMIC:
        axes.set_yscale("log")
    if metric == "update_fraction":
        axes.yaxis.set_major_formatter(lambda value, position: f"{value:.0%}")
    axes.margins(x=0.02)
    axes.grid(color="0.92", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    add_legend(figure, [curve.label for curve in curves])
    return figure


def _draw_curve(axes, index: int, curve: Curve) -> None:
    color, marker = COLORS[index % len(COLORS)], MARKERS[index // len(COLORS) % len(MARKERS)]
    if len(curve.x) <= FEW:
        marker = marker or "o"
    axes.plot(
        curve.x,
        curve.y.mean(0),
        color=color,
        linestyle=LINES[curve.rule],
        marker=marker,
        markevery=_spaced(len(curve.x), index),
        markersize=4.5,
        linewidth=1.3,
        label=curve.label,
    )
    if len(curve.y) > 1:
        axes.fill_between(curve.x, curve.y.min(0), curve.y.max(0), color=color, alpha=0.18, linewidth=0)


def _spaced(count: int, index: int) -> Optional[Tuple[int, int]]:
    """First marker and distance of markers: about ten along the line, at different places for different lines."""
    every = max(count // 10, 1)
    return (index % every, every)
