"""The comparison as a picture."""

from pathlib import Path
from statistics import mean
from typing import List

from skiprnn_plugin.cli.plot.elements import add_legend, get_cycle, new_figure
from skiprnn_plugin.cli.plot.figures import Look, write_picture

from .data import CHANCE
from .table import Group, group

MARKERS = {"fixed": "o", "target": "D"}
LABELS = {"fixed": "fixed lambda, without a warm-up", "target": "target fraction 0.5, 0.25 or 0.1"}


def draw(rows: List[dict], path: Path) -> None:
    """Write a picture of metric against samples used: a panel for each set, a small mark for each run, a large one for
    the mean over the seeds."""
    write_picture(lambda: _draw(rows), path, Look())


def _draw(rows: List[dict]):
    figure, colors = new_figure(height=5.2), dict(zip(MARKERS, get_cycle()))
    panels = figure.subplots(2, 3).flatten()
    sets = group(rows)
    for axes in panels[len(sets) :]:
        axes.set_axis_off()
    for axes, (name, groups) in zip(panels, sets.items()):
        for rule, marker in MARKERS.items():
            _draw_runs(axes, [one for one in groups if one.kind.rule == rule], marker, colors[rule])
        for target in sorted({one.kind.value for one in groups if one.kind.rule == "target"}):
            axes.axvline(target, color="0.75", linewidth=0.8, linestyle="--", zorder=0)
        axes.axhline(CHANCE[name], color="0.5", linewidth=0.8, linestyle=":", zorder=0)
        axes.set_xscale("log")
        axes.set_xlim(0.01, 1.1)
        axes.set_xticks([0.01, 0.1, 0.25, 0.5, 1], ["1%", "10%", "25%", "50%", ""])
        axes.minorticks_off()
        axes.set_title(name, loc="left")
        axes.set_ylabel("mean squared error" if name == "adding" else "accuracy")
        axes.set_xlabel("samples used")
    style = {"linestyle": "none", "markersize": 6, "markeredgecolor": "white"}
    handles = [panels[0].plot([], [], marker=MARKERS[rule], color=colors[rule], **style)[0] for rule in MARKERS]
    add_legend(figure, handles, [LABELS[rule] for rule in MARKERS])
    return figure


def _draw_runs(axes, groups: List[Group], marker: str, color) -> None:
    for one in groups:
        axes.plot(one.used, one.metric, marker, color=color, markersize=3, alpha=0.5)
    x, y = [mean(one.used) for one in groups], [mean(one.metric) for one in groups]
    axes.plot(x, y, marker, color=color, markersize=6, markeredgecolor="white")
