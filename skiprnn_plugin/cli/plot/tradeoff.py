"""``skiprnn-plot tradeoff``: what runs lose that update less, as the task metric against the updates."""

import argparse
from operator import attrgetter
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

from ...runs.checkpoint import sweep_runs
from ...runs.find import find_files
from ...runs.groups import deviation, mean
from ...runs.series import Series
from ...runs.tradeoff import LOGARITHMIC, METRICS, Point, Tradeoff, collect_tradeoff
from ..command import as_table
from ..loading import (
    RUN_HELP,
    add_loading_arguments,
    add_split_argument,
    add_sweep_argument,
    check_split,
    prepare_sweep,
)
from .elements import (
    add_legend,
    add_title,
    get_cycle,
    get_points,
    get_width,
    limit_ticks,
    name_metric,
    new_figure,
    set_limits,
)
from .figures import add_picture_arguments, check_picture, choose_title, write_picture

HELP = "draw the task metric of runs against the samples that they used"

# Update rules differ in shape, models in colour
RULES = {
    "learned": {"marker": "o", "linestyle": "-", "markersize": 5},
    "target": {"marker": "D", "linestyle": "--", "markersize": 4.5},
    "random": {"marker": "^", "linestyle": ":", "markersize": 5.5},
    "full": {"marker": "s", "linestyle": "none", "markersize": 5},
}
PAPER = {"markerfacecolor": "white", "linestyle": "none", "elinewidth": 0.7, "zorder": 2, "clip_on": False}
LARGER = 1.4  # the paper's markers than our own, so that they show around these
SOLVED = {"color": "0.5", "linestyle": "--", "linewidth": 0.8, "zorder": 1, "label": "solved"}
GAP = 2  # points between two labels
# Offsets of a label from its point, in 1/72 inch, the best first
OFFSETS = ((6, 6), (6, -6), (-6, 6), (-6, -6), (0, 9), (0, -9), (9, 0), (-9, 0), (6, 18), (-6, 18), (6, -18), (-6, -18))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help=RUN_HELP)
    parser.add_argument(
        "--metric", help=f"logged metric to draw (default: the first of {', '.join(METRICS)} that all runs have)"
    )
    add_picture_arguments(parser, "tradeoff.png")
    add_split_argument(parser)
    add_sweep_argument(parser)
    add_loading_arguments(parser)


def run(args: argparse.Namespace) -> str:
    """Draw the figure; returns its numbers as a table, with ± the sample standard deviation over runs."""
    look = check_picture(args)
    check_split(args.split)
    files = find_files(args.runs)
    tradeoff = collect_tradeoff(sweep_runs(files, args.split, prepare_sweep(args)), args.metric)
    title = choose_title(args, _make_title(tradeoff, args.split))
    write_picture(lambda: draw(tradeoff, title), args.output, look)
    return as_markdown(tradeoff)


def as_markdown(tradeoff: Tradeoff) -> str:
    lines = []
    for series in tradeoff.series:
        for point in series.points:
            label = ", ".join(filter(None, (series.label, point.label)))
            lines.append([label, _show(point.x), _show(point.y), str(len(point.x))])
    used = "samples used" if tradeoff.updates == "update_fraction" else "samples used per sequence"
    return as_table(["model", used, tradeoff.metric, "runs"], lines)


def _show(values: List[float]) -> str:
    """The mean, and the sample standard deviation if there are several values."""
    spread = "" if len(values) == 1 else f" ± {deviation(values):.2g}"
    return f"{mean(values):.4g}{spread}"


def _make_title(tradeoff: Tradeoff, split: str) -> str:
    counts = sorted({len(point.x) for series in tradeoff.series for point in series.points})
    runs = "" if counts == [1] else f"; mean and range of {' or '.join(map(str, counts))} runs"
    return f"{tradeoff.experiment}, split {split}{runs}"


def draw(tradeoff: Tradeoff, title: str):
    """A matplotlib figure: a marker for each point, a colour for each model, a line for each series."""
    figure, colors = new_figure(height=1.25 + 0.32 * get_width()), get_cycle()
    axes = figure.subplots()
    drawn = [(series, colors[series.model % len(colors)]) for series in tradeoff.series]
    handles = {series.label: _draw_series(axes, series, color) for series, color in drawn}
    paper = {series.rule: _draw_paper(axes, series, color) for series, color in drawn if _has_paper(series)}
    if paper:
        handles[_name_paper(tradeoff)] = tuple(paper.values())
    axes.set_xlabel(name_metric(tradeoff.updates))
    axes.set_ylabel(name_metric(tradeoff.metric))
    if tradeoff.metric in LOGARITHMIC:
        axes.set_yscale("log")
    if tradeoff.solved is not None:
        handles["solved"] = axes.axhline(tradeoff.solved, **SOLVED)
    axes.margins(0.07, 0.1)
    axes.grid(True)
    limit_ticks(axes)
    points = [point for series in tradeoff.series for point in series.points]
    printed = [point.paper[::2] for point in points if point.paper]
    for axis, metric, values, others in (
        (axes.xaxis, tradeoff.updates, [point.x for point in points], [x for x, _ in printed]),
        (axes.yaxis, tradeoff.metric, [point.y for point in points], [y for _, y in printed]),
    ):
        set_limits(axis, metric, np.concatenate([*values, others]))
    _draw_legend(figure, handles)
    add_title(figure, title)
    _write_labels(axes, tradeoff, colors)
    return figure


def _center(point: Point) -> Tuple[float, float]:
    return float(np.mean(point.x)), float(np.mean(point.y))


def _draw_series(axes, series: Series, color):
    """Draw the points of a series, and the range of their runs; returns the line through the points."""
    x, y = zip(*map(_center, series.points))
    bars = {}
    for name, center, values in (("xerr", x, [p.x for p in series.points]), ("yerr", y, [p.y for p in series.points])):
        if any(len(repeated) > 1 for repeated in values):
            bars[name] = [[c - min(v) for c, v in zip(center, values)], [max(v) - c for c, v in zip(center, values)]]
    style = {**RULES[series.rule], "color": color, "clip_on": False, "elinewidth": 0.7}
    return axes.errorbar(x, y, **bars, **style, label=series.label).lines[0]


def _has_paper(series: Series) -> bool:
    return any(point.paper for point in series.points)


def _draw_paper(axes, series: Series, color):
    """Draw the paper's numbers, as hollow markers; returns the line that has them."""
    x, spread, y = zip(*[point.paper for point in series.points if point.paper])
    rule = RULES[series.rule]
    style = {**PAPER, "marker": rule["marker"], "markersize": LARGER * rule["markersize"], "color": color}
    return axes.errorbar(x, y, xerr=spread, **style).lines[0]


def _name_paper(tradeoff: Tradeoff) -> str:
    heights = {point.paper[2] for series in tradeoff.series for point in series.points if point.paper}
    return "paper (solved, no value given)" if heights == {tradeoff.solved} else "paper"


def _draw_legend(figure, handles: Dict[str, Any]) -> None:
    from matplotlib.legend_handler import HandlerTuple

    # The paper's markers of several update rules are beside each other
    add_legend(figure, list(handles.values()), list(handles), handler_map={tuple: HandlerTuple(ndivide=None, pad=0.3)})


def _write_labels(axes, tradeoff: Tradeoff, colors: Sequence) -> None:
    """Write each point's label where it covers least of the markers, the lines and the other labels."""
    axes.figure.draw_without_rendering()  # so that the positions of data are known
    taken, boxes = _trace(axes, tradeoff), []
    for series in tradeoff.series:
        for point in filter(attrgetter("label"), series.points):
            style = {"color": colors[series.model % len(colors)], "fontsize": get_points("xtick.labelsize")}
            _write_label(axes, point.label, _center(point), style, taken, boxes)
            if point.paper:
                _write_label(axes, point.label, point.paper[::2], {**style, "fontstyle": "italic"}, taken, boxes)


def _write_label(axes, label: str, center: Tuple[float, float], style: dict, taken: np.ndarray, boxes: List) -> None:
    candidates = [
        axes.annotate(
            label,
            center,
            (right, up),
            textcoords="offset points",
            ha={-1: "right", 0: "center", 1: "left"}[np.sign(right)],
            va={-1: "top", 0: "center", 1: "bottom"}[np.sign(up)],
            in_layout=False,
            **style,
        )
        for right, up in OFFSETS
    ]
    gap = GAP * axes.figure.dpi / 72
    costs = [_cost(text.get_window_extent().padded(gap), boxes, taken, axes.bbox) for text in candidates]
    boxes.append(candidates.pop(int(np.argmin(costs))).get_window_extent())
    for text in candidates:
        text.remove()


def _trace(axes, tradeoff: Tradeoff) -> np.ndarray:
    """A sample of the pixels that markers and lines cover, [N, 2]."""
    centers = [axes.transData.transform([_center(point) for point in series.points]) for series in tradeoff.series]
    point = axes.figure.dpi / 72
    lines = [_walk(a, b, point) for corners in centers for a, b in zip(corners, corners[1:])]
    paper = [point.paper[::2] for series in tradeoff.series for point in series.points if point.paper]
    if paper:
        centers.append(axes.transData.transform(paper))
    if tradeoff.solved is not None:
        height = axes.transData.transform((0, tradeoff.solved))[1]
        lines.append(_walk(np.array([axes.bbox.x0, height]), np.array([axes.bbox.x1, height]), point))
    marker = 2.5 * point * np.array([(right, up) for right in (-1, 0, 1) for up in (-1, 0, 1)])
    return np.concatenate([*lines, *(center + marker for corners in centers for center in corners)])


def _walk(start: np.ndarray, end: np.ndarray, point: float) -> np.ndarray:
    """Pixels on a line, 3 points apart; ``point`` is the size of a point in pixels."""
    steps = max(int(np.abs(end - start).max() / (3 * point)), 2)
    return start + np.linspace(0, 1, steps)[:, None] * (end - start)


def _cost(box, boxes, taken: np.ndarray, inside) -> float:
    covered = ((taken > box.min) & (taken < box.max)).all(1).sum()
    overlaps = sum(box.overlaps(other) for other in boxes)
    outside = not (inside.contains(box.x0, box.y0) and inside.contains(box.x1, box.y1))
    return covered + 50 * overlaps + 100 * outside
