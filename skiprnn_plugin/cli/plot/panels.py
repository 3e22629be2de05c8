"""Samples of sequences of numbers: a panel for each sequence, with its used and its skipped steps over time."""

from typing import Any, Dict, List, NamedTuple, Optional

import numpy as np

from ...runs.samples import Read, describe_sample
from .elements import (
    add_captions,
    add_legend,
    add_title,
    get_points,
    get_width,
    limit_ticks,
    make_caption,
    mark_skipped,
    mark_used,
    new_figure,
)

HEIGHT = 0.75  # inches of a panel, without its caption
MARKED = {"color": "black", "marker": "o", "markerfacecolor": "none", "linestyle": "none", "markeredgewidth": 0.8}
RING = 6.5  # points, the least size of a ring
WAVE = {"color": "0.8", "linewidth": 0.7, "zorder": 2}


class Samples(NamedTuple):
    """What is drawn of N sequences of T steps.

    Attributes:
        times: where the steps are on the horizontal axis, [T].
        time_label: the label of the horizontal axis.
        values: [N, T], nan where a sequence has ended.
        value_label: the label of the vertical axis.
        used: True where the model updated its state (in either direction), bool [N, T].
        outcomes: target and prediction in words, N of them.
        marked: True at the samples that get a ring, bool [N, T]; None draws a line through the samples instead.
        marked_label: what the ring means.
    """

    times: np.ndarray
    time_label: str
    values: np.ndarray
    value_label: str
    used: np.ndarray
    outcomes: List[str]
    marked: Optional[np.ndarray]
    marked_label: str = "marked"


def make(task, read: Read) -> Samples:
    """The sequences as the task's ``drawing`` says; the values after the end of a shorter sequence are nan."""
    drawing, steps = task.drawing, read.x.shape[1]
    is_real = np.arange(steps) < read.lengths[:, None]
    marked = None if drawing.marked_feature is None else is_real & (read.x[:, :, drawing.marked_feature] > 0)
    return Samples(
        times=drawing.first_time + np.arange(steps) * drawing.time_step,
        time_label=drawing.time_label,
        values=np.where(is_real, read.x[:, :, 0], np.nan),
        value_label=drawing.value_label,
        used=is_real & read.used,
        outcomes=[describe_sample(task, read, index) for index in range(len(read.x))],
        marked=marked,
        marked_label=drawing.marked_label,
    )


def draw(samples: Samples, title: Optional[str] = None):
    """A matplotlib figure with a panel for each sequence; without any titles if ``title`` is empty."""
    count, kinds = len(samples.values), _style(samples)
    figure = new_figure(HEIGHT * count + 0.4)
    panels = figure.subplots(count, sharex=True, sharey=True, squeeze=False)[:, 0]
    for index, panel in enumerate(panels):
        handles = _draw_sequence(panel, samples, index, kinds)
    captions = [_describe(samples, index) for index in range(count)]
    add_captions(figure, panels, captions, title, get_width() - 0.6, loc="left")
    panels[-1].set_xlabel(samples.time_label)
    limit_ticks(panels[-1])
    figure.supylabel(samples.value_label, fontsize=get_points("axes.labelsize"))
    add_legend(figure, handles, list(kinds))
    add_title(figure, title or "")
    return figure


def _describe(samples: Samples, index: int) -> str:
    steps = (~np.isnan(samples.values[index])).sum()
    return make_caption(samples.outcomes[index], samples.used[index].sum(), steps)


def _style(samples: Samples) -> Dict[str, Dict[str, Any]]:
    """How the points are drawn, by their names in the legend."""
    steps = len(samples.times)
    kinds = {"used": {**mark_used(steps), "zorder": 4}, "skipped": {**mark_skipped(steps), "zorder": 3}}
    if samples.marked is not None:
        size = max(2.1 * kinds["used"]["markersize"], RING)
        kinds[samples.marked_label] = {**MARKED, "markersize": size, "zorder": 2}
    return kinds


def _draw_sequence(panel, samples: Samples, index: int, kinds: Dict[str, Dict[str, Any]]) -> List:
    """Draw a sequence's points; returns what is drawn of each kind."""
    times, values, used = samples.times, samples.values[index], samples.used[index]
    panel.axhline(0, color="0.85", linewidth=0.6, zorder=1)
    if samples.marked is None:
        panel.plot(times, values, **WAVE)
    chosen = [used, ~used, *([] if samples.marked is None else [samples.marked[index]])]
    drawn = [
        panel.plot(times[points], values[points], label=label, **style)[0]
        for points, (label, style) in zip(chosen, kinds.items())
    ]
    step = times[1] - times[0] if len(times) > 1 else 1
    panel.set_xlim(times[0] - step, times[-1] + step)
    panel.margins(y=0.18)
    return drawn
