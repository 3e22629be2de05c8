"""The comparison as a picture."""

from pathlib import Path
from statistics import mean
from typing import List

from skiprnn_plugin.cli.plot.figures import COLORS, add_legend, new_figure, save

from .data import CHANCE
from .table import Group, group

STYLES = {
    "fixed": {"color": COLORS[0], "marker": "o", "label": "fixed lambda, without a warm-up"},
    "target": {"color": COLORS[1], "marker": "D", "label": "target fraction 0.5, 0.25 or 0.1"},
}


def draw(rows: List[dict], path: Path) -> None:
    """Write a picture of metric against samples used: a panel for each set, a small mark for each run, a large one for
    the mean over the seeds."""
    figure = new_figure(height=5.6)
    panels = figure.subplots(2, 3).flatten()
    sets = group(rows)
    for axes in panels[len(sets) :]:
        axes.set_axis_off()
    for axes, (name, groups) in zip(panels, sets.items()):
        for rule, style in STYLES.items():
            _draw_rule(axes, [one for one in groups if one.kind.rule == rule], style)
        for target in sorted({one.kind.value for one in groups if one.kind.rule == "target"}):
            axes.axvline(target, color="0.75", linewidth=0.8, linestyle="--", zorder=0)
        axes.axhline(CHANCE[name], color="0.5", linewidth=0.8, linestyle=":", zorder=0)
        axes.set_xscale("log")
        axes.set_xlim(0.01, 1.1)
        axes.set_xticks([0.01, 0.1, 0.25, 0.5, 1], ["1%", "10%", "25%", "50%", "100%"], fontsize=8)
        axes.minorticks_off()
        axes.tick_params(axis="y", labelsize=8)
        axes.set_title(name, loc="left", fontsize=10)
        axes.set_ylabel("mean squared error" if name == "adding" else "accuracy", fontsize=9)
        axes.set_xlabel("samples used", fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    for style in STYLES.values():
        panels[0].plot([], [], linestyle="none", markersize=7, **style)
    add_legend(figure, [style["label"] for style in STYLES.values()])
    save(figure, path)


def _draw_rule(axes, groups: List[Group], style: dict) -> None:
    color, marker = style["color"], style["marker"]
    for one in groups:
        axes.plot(one.used, one.metric, marker, color=color, markersize=3, alpha=0.5)
    x, y = [mean(one.used) for one in groups], [mean(one.metric) for one in groups]
    axes.plot(x, y, marker, color=color, markersize=7, markeredgecolor="white")
