"""``skiprnn-plot curves``: held-out metrics over training, as mean and range of runs that repeat each other."""

import argparse
from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np

from ...runs.curves import Curve, collect_curves
from ...runs.find import find_files, find_history
from ...runs.history import read_histories
from ...runs.rows import name_experiment
from ...runs.run import History
from ...runs.tradeoff import LOGARITHMIC, METRICS, find_experiment, find_metric
from ..command import as_table
from .elements import add_legend, add_title, get_cycle, get_width, limit_ticks, name_metric, new_figure, set_limits
from .figures import add_picture_arguments, check_picture, choose_title, write_picture

HELP = "draw a metric of runs, and the samples that they use, over training"

Panels = Dict[str, List[Curve]]  # by metric, in their order from above

USED = "update_fraction"
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
        "a folder of skiprnn-train, or a report in docs/results",
    )
    parser.add_argument(
        "--metric",
        action="append",
        help="logged metric to draw; give it several times for several panels (default: the first of "
        f"{', '.join(METRICS)} that all runs have and, where a model skips, {USED})",
    )
    parser.add_argument("--over", choices=tuple(OVER), default="updates", help="horizontal axis (default: %(default)s)")
    add_picture_arguments(parser, "curves.png")
    parser.add_argument("--split", default="valid", help="logged split, which may be train (default: %(default)s)")


def run(args: argparse.Namespace) -> str:
    """Draw the figure; returns where the curves end, as a table."""
    look = check_picture(args)
    files = find_files(args.runs, find_history)
    histories = [history for file in files for history in read_histories(file, args.split)]
    find_experiment(histories)
    panels = _collect_panels(histories, args.metric, OVER[args.over])
    curves = next(iter(panels.values()))
    title = choose_title(args, f"{name_experiment(histories[0].options)}, split {args.split}{_count_runs(curves)}")
    write_picture(lambda: draw(panels, args.over, title), args.output, look)
    return as_table(["model", HEADINGS[args.over], *panels, "runs"], _list_ends(panels))


def _collect_panels(histories: Sequence[History], metrics: Optional[Sequence[str]], over: str) -> Panels:
    if metrics:
        return {metric: collect_curves(histories, metric, over) for metric in metrics}
    metric = find_metric(histories)
    panels = {metric: collect_curves(histories, metric, over)}
    # Models of others have no such metric, and models that never skip need no panel of their own
    used = collect_curves(histories, USED, over, skip_missing=True)
    if any((curve.y < 1).any() for curve in used):
        panels[USED] = used
    return panels


def _list_ends(panels: Panels) -> List[List[str]]:
    """A line for each model, with the last mean of each metric; nothing for a metric that it lacks."""
    (first, *_), lines = panels.values(), []
    for curve in first:
        same = [next((other for other in curves if other.label == curve.label), None) for curves in panels.values()]
        ends = ["" if other is None else f"{other.y[:, -1].mean():.4g}" for other in same]
        lines.append([curve.label, str(int(curve.x[-1])), *ends, str(len(curve.y))])
    return lines


def _count_runs(curves: Sequence[Curve]) -> str:
    """The end of a title that says what the shades show; empty if there are none."""
    counts = sorted({len(curve.y) for curve in curves})
    return "" if counts == [1] else f"; mean and range of {' or '.join(map(str, counts))} runs"


def draw(panels: Panels, over: str, title: str):
    """A matplotlib figure with a panel for each metric, one below the other: a line for each mean, a shade from the
    lowest to the highest run. The first metric has all models."""
    height = 1.25 + 0.27 * get_width()
    figure, colors = new_figure(height if len(panels) == 1 else 0.75 * height * len(panels)), get_cycle()
    first = next(iter(panels.values()))
    places = {curve.label: index for index, curve in enumerate(first)}  # a model looks the same in all panels
    grid = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
    for axes, (metric, curves) in zip(grid, panels.items()):
        for curve in curves:
            _draw_curve(axes, places[curve.label], curve, colors)
        axes.set_ylabel(name_metric(metric))
        if metric in LOGARITHMIC:
            axes.set_yscale("log")
        axes.margins(x=0.02)
        axes.grid(True)
        set_limits(axes.yaxis, metric, np.concatenate([curve.y.ravel() for curve in curves]))
    grid[-1].set_xlabel(HEADINGS[over])
    limit_ticks(grid[-1], integer=True)
    figure.align_ylabels()
    add_legend(figure, grid[0].lines, list(places))
    add_title(figure, title)
    return figure


def _draw_curve(axes, index: int, curve: Curve, colors: Sequence) -> None:
    """Draw a curve, and the shade of its runs."""
    color, marker = colors[index % len(colors)], MARKERS[index // len(colors) % len(MARKERS)]
    if len(curve.x) <= FEW:
        marker = marker or "o"
    if len(curve.y) > 1:
        axes.fill_between(curve.x, curve.y.min(0), curve.y.max(0), color=color, alpha=0.18, linewidth=0)
    axes.plot(
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


def _spaced(count: int, index: int) -> Optional[Tuple[int, int]]:
    """First marker and distance of markers: about ten along the line, at different places for different lines."""
    every = max(count // 10, 1)
    return (index % every, every)
