"""Samples of sequences of several numbers at each step: a curve for each of them, over the spans of used steps."""

import itertools
from typing import List, NamedTuple, Optional, Sequence

import numpy as np

from ...runs.samples import Read, describe_sample
from .elements import (
    SKIPPED,
    add_captions,
    add_legend,
    add_title,
    find_spans,
    get_colors,
    get_points,
    get_width,
    limit_ticks,
    make_caption,
    new_figure,
)

HEIGHT = 0.85  # inches of a panel, without its caption
MOST_CURVES = 8  # more features are drawn as one curve
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)))  # of curves of the same colour
STRIP = 0.07  # height of the strip that shows used and skipped steps, in heights of the panel
PALE = 0.16  # share of the colour "used" in the background of used steps


class Features(NamedTuple):
    """What is drawn of N sequences.

    Attributes:
        curves: N arrays [T, number of curves].
        names: the names of the curves.
        used: N arrays, bool [T].
        captions: N of them.
        label: the label of the vertical axis.
    """

    curves: List[np.ndarray]
    names: Sequence[str]
    used: List[np.ndarray]
    captions: List[str]
    label: str


def make(task, read: Read) -> Features:
    """The features as the model reads them; if there are many, their root mean square."""
    width = read.x.shape[2]
    curves, used, captions = [], [], []
    for index, length in enumerate(read.lengths):
        x = read.x[index, :length]
        curves.append(x if width <= MOST_CURVES else np.sqrt((x**2).mean(1, keepdims=True)))
        used.append(read.used[index, :length])
        outcome = describe_sample(task, read, index)
        captions.append(make_caption(outcome, used[-1].sum(), length))
    if width > MOST_CURVES:
        label = f"root mean square of {width:,} features"
        return Features(curves, [label], used, captions, "root mean square")
    names = task.feature_names
    if names is None or len(names) != width:
        names = [f"channel {number + 1}" for number in range(width)] if width > 1 else ["value"]
    return Features(curves, names, used, captions, "value")


def draw(features: Features, title: Optional[str] = None):
    """A matplotlib figure with a panel for each sequence; without any titles if ``title`` is empty."""
    count = len(features.curves)
    figure = new_figure(HEIGHT * count + 0.4)
    panels = figure.subplots(count, sharex=True, squeeze=False)[:, 0]
    for panel, curves, used in zip(panels, features.curves, features.used):
        lines = _draw_curves(panel, curves, features.names)
        strips = _draw_used(panel, used)
    longest = max(map(len, features.used))
    panels[0].set_xlim(-0.5 - 0.01 * longest, longest - 0.5 + 0.01 * longest)  # the panels share it
    add_captions(figure, panels, features.captions, title, get_width() - 0.6, loc="left")
    panels[-1].set_xlabel("step")
    limit_ticks(panels[-1], integer=True)
    figure.supylabel(features.label, fontsize=get_points("axes.labelsize"))
    add_legend(figure, [*strips, *lines], ["used", "skipped", *features.names])
    add_title(figure, title or "")
    return figure


def _draw_curves(panel, curves: np.ndarray, names: Sequence[str]) -> List:
    colors = get_colors().others if len(names) > 1 else ["0.25"]
    styles = [(color, dashes) for dashes in DASHES for color in colors]
    width = 0.9 if len(curves) < 400 else 0.5
    lines = [
        panel.plot(curve, color=color, linestyle=dashes, linewidth=width, zorder=3)[0]
        for curve, (color, dashes) in zip(curves.T, itertools.cycle(styles))
    ]
    low, high = panel.get_ylim()
    panel.set_ylim(low - 2.5 * STRIP * (high - low), high)  # room for the strip
    return lines


def _draw_used(panel, used: np.ndarray) -> List:
    """Fill the background of used steps, and draw a strip of the used and the skipped steps; returns what is drawn of
    each."""
    colors, spans, whole = get_colors(), find_spans(used), [(-0.5, len(used))]
    place = {"transform": panel.get_xaxis_transform()}
    panel.broken_barh(spans, (0, 1), facecolor=colors.paler(PALE), linewidth=0, zorder=0, **place)
    skipped = panel.broken_barh(whole, (0, STRIP), facecolor=SKIPPED, linewidth=0, zorder=1, **place)
    # With an edge, as a single step of many would otherwise be too narrow to be seen
    style = {"facecolor": colors.used, "edgecolor": colors.used, "linewidth": 0.25}
    return [panel.broken_barh(spans, (0, STRIP), zorder=2, **style, **place), skipped]
