"""``skiprnn-plot tradeoff``: what runs lose that update less, as the task metric against the updates."""

import argparse
from operator import attrgetter
from typing import List, Tuple

import numpy as np

from ...runs.checkpoint import read_runs
from ...runs.find import find_files
from ...runs.groups import deviation, mean
from ...runs.tradeoff import LOGARITHMIC, METRICS, Point, Series, Tradeoff, collect
from ..command import as_table
from ..loading import RUN_HELP, add_loading_arguments, add_split_argument, check_split, prepare_loading
from .figures import COLORS, TITLES, add_output_argument, check_output, new_figure, save

HELP = "draw the task metric of runs against the samples that they used"

# Update rules differ in shape, models in colour
RULES = {
    "learned": {"marker": "o", "linestyle": "-", "markersize": 6.5},
    "target": {"marker": "D", "linestyle": "--", "markersize": 6},
    "random": {"marker": "^", "linestyle": ":", "markersize": 7},
    "full": {"marker": "s", "linestyle": "none", "markersize": 6.5},
}
PAPER = {
    "markerfacecolor": "white",
    "markersize": 10,
    "linestyle": "none",
    "elinewidth": 0.8,
    "capsize": 2,
    "zorder": 2,
}

PAPER_KEY = {"marker": "o", "markersize": 8, "markerfacecolor": "white", "color": "0.4", "linestyle": "none"}
SOLVED = {"color": "0.5", "linestyle": "--", "linewidth": 0.9, "zorder": 1, "label": "solved"}
# Offsets of a label from its point, in 1/72 inch, the best first
OFFSETS = ((6, 6), (6, -6), (-6, 6), (-6, -6), (0, 9), (0, -9), (9, 0), (-9, 0), (6, 18), (-6, 18), (6, -18), (-6, -18))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help=RUN_HELP)
    parser.add_argument(
        "--metric", help=f"logged metric to draw (default: the first of {', '.join(METRICS)} that all runs have)"
    )
    add_output_argument(parser, "tradeoff.png")
    add_split_argument(parser)
    add_loading_arguments(parser)


def run(args: argparse.Namespace) -> str:
    """Draw the figure; returns its numbers as a table, with ± the sample standard deviation over runs."""
    check_output(args.output)
    check_split(args.split)
    files = find_files(args.runs)
    tradeoff = collect(read_runs(files, args.split, prepare_loading(args)), args.metric)
    save(draw(tradeoff, args.split), args.output)
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


def draw(tradeoff: Tradeoff, split: str):
    """A matplotlib figure: a marker for each point, a colour for each model, a line for each series."""
    figure = new_figure(height=5.0)
    axes = figure.subplots()
    for series in tradeoff.series:
        _draw_series(axes, series)
    for series in tradeoff.series:
        _draw_paper(axes, series)
    axes.set_xlabel(TITLES[tradeoff.updates])
    axes.set_ylabel(TITLES.get(tradeoff.metric, tradeoff.metric))
    axes.set_title(_title(tradeoff, split), loc="left", fontsize=10)
    if tradeoff.metric in LOGARITHMIC:
        axes.set_yscale("log")
    if tradeoff.updates == "update_fraction":
        axes.xaxis.set_major_formatter(lambda value, position: f"{value:.0%}")
    axes.margins(0.07, 0.1)
    axes.grid(color="0.92", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    _draw_legend(axes, tradeoff)
    _write_labels(axes, tradeoff)
    return figure


def _title(tradeoff: Tradeoff, split: str) -> str:
    counts = sorted({len(point.x) for series in tradeoff.series for point in series.points})
    title = f"{tradeoff.experiment}, split {split}"
    if counts == [1]:
        return title
    return f"{title}; mean and range of {' or '.join(map(str, counts))} runs"


def _center(point: Point) -> Tuple[float, float]:
    return float(np.mean(point.x)), float(np.mean(point.y))


def _draw_series(axes, series: Series) -> None:
    x, y = zip(*map(_center, series.points))
    bars = {}
    for name, center, values in (("xerr", x, [p.x for p in series.points]), ("yerr", y, [p.y for p in series.points])):
        if any(len(repeated) > 1 for repeated in values):
            bars[name] = [[c - min(v) for c, v in zip(center, values)], [max(v) - c for c, v in zip(center, values)]]
    color = COLORS[series.model % len(COLORS)]
    axes.errorbar(
        x, y, **bars, **RULES[series.rule], color=color, label=series.label, linewidth=1.2, elinewidth=0.9, capsize=2.5
    )


def _draw_paper(axes, series: Series) -> None:
    """Draw the paper's numbers, as hollow markers."""
    printed = [point.paper for point in series.points if point.paper]
    if printed:
        x, spread, y = zip(*printed)
        color, marker = COLORS[series.model % len(COLORS)], RULES[series.rule]["marker"]
        axes.errorbar(x, y, xerr=spread, **PAPER, color=color, marker=marker)


def _draw_legend(axes, tradeoff: Tradeoff) -> None:
    handles, labels = axes.get_legend_handles_labels()
    heights = {point.paper[2] for series in tradeoff.series for point in series.points if point.paper}
    if heights:
        label = "paper (solved, no value given)" if heights == {tradeoff.solved} else "paper"
        handles += axes.plot([], [], **PAPER_KEY, label=label)
    if tradeoff.solved is not None:
        handles.append(axes.axhline(tradeoff.solved, **SOLVED))
    axes.legend(handles=handles, frameon=False, fontsize=9)


def _write_labels(axes, tradeoff: Tradeoff) -> None:
    """Write each point's label where it covers least of the markers, the lines and the other labels."""
    axes.figure.draw_without_rendering()  # so that the positions of data are known
    taken = _trace(axes, tradeoff)
    boxes = [axes.get_legend().get_window_extent()]
    for series in tradeoff.series:
        for point in filter(attrgetter("label"), series.points):
            style = {"color": COLORS[series.model % len(COLORS)], "fontsize": 8.5}
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
            **style,
        )
        for right, up in OFFSETS
    ]
    costs = [_cost(text.get_window_extent(), boxes, taken, axes.bbox) for text in candidates]
    boxes.append(candidates.pop(int(np.argmin(costs))).get_window_extent())
    for text in candidates:
        text.remove()


def _trace(axes, tradeoff: Tradeoff) -> np.ndarray:
    """A sample of the pixels that markers and lines cover, [N, 2]."""
    centers = [axes.transData.transform([_center(point) for point in series.points]) for series in tradeoff.series]
    lines = [_walk(a, b) for corners in centers for a, b in zip(corners, corners[1:])]
    paper = [point.paper[::2] for series in tradeoff.series for point in series.points if point.paper]
    if paper:
        centers.append(axes.transData.transform(paper))
    if tradeoff.solved is not None:
        height = axes.transData.transform((0, tradeoff.solved))[1]
        lines.append(_walk(np.array([axes.bbox.x0, height]), np.array([axes.bbox.x1, height])))
    marker = 4 * np.array([(right, up) for right in (-1, 0, 1) for up in (-1, 0, 1)])
    return np.concatenate([*lines, *(center + marker for corners in centers for center in corners)])


def _walk(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    steps = max(int(np.abs(end - start).max() / 4), 2)
    return start + np.linspace(0, 1, steps)[:, None] * (end - start)


def _cost(box, boxes, taken: np.ndarray, inside) -> float:
    covered = ((taken > box.min) & (taken < box.max)).all(1).sum()
    overlaps = sum(box.overlaps(other) for other in boxes)
    outside = not (inside.containsx(box.x0) and inside.containsx(box.x1) and inside.containsy(box.y0))
    return covered + 50 * overlaps + 100 * outside
