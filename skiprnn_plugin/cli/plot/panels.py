"""Samples of sequences of numbers: a panel for each sequence, with its used and its skipped steps over time."""

from typing import List, NamedTuple, Optional

import numpy as np

from ...runs.samples import Read, describe_sample
from .figures import new_figure

# Red and blue as in the paper; different in lightness and shape too, for readers who can't tell these colours apart
USED = {"color": "#d62728", "marker": "o", "markersize": 5.5, "zorder": 3}
SKIPPED = {"color": "#1f77b4", "marker": "x", "markersize": 5.5, "markeredgewidth": 1.5, "zorder": 3}
MARKED = {"color": "black", "marker": "o", "markersize": 12, "markerfacecolor": "none", "zorder": 2}
WAVE = {"color": "0.75", "linewidth": 0.8, "zorder": 2}


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


def draw(samples: Samples):
    """A matplotlib figure with a panel for each sequence."""
    count = len(samples.values)
    figure = new_figure(height=1.75 * count + 0.3)
    panels = figure.subplots(count, sharex=True, sharey=True, squeeze=False)[:, 0]
    for index, panel in enumerate(panels):
        _draw_sequence(panel, samples, index)
        used = samples.used[index].sum()
        steps = (~np.isnan(samples.values[index])).sum()
        title = ", ".join(filter(None, [samples.outcomes[index], f"used {used} of {steps}"]))
        panel.set_title(title, loc="left", fontsize=10, parse_math=False)
    panels[0].legend(loc="lower right", bbox_to_anchor=(1, 1), ncol=3, frameon=False, borderpad=0)
    panels[-1].set_xlabel(samples.time_label)
    return figure


def _draw_sequence(panel, samples: Samples, index: int) -> None:
    times, values, used = samples.times, samples.values[index], samples.used[index]
    panel.axhline(0, color="0.85", linewidth=0.8, zorder=1)
    kinds = [("used", used, USED), ("skipped", ~used, SKIPPED)]
    if samples.marked is None:
        panel.plot(times, values, **WAVE)
    else:
        kinds.append((samples.marked_label, samples.marked[index], MARKED))
    for label, chosen, style in kinds:
        panel.plot(times[chosen], values[chosen], linestyle="none", label=label, **style)
    panel.set_ylabel(samples.value_label)
    step = times[1] - times[0] if len(times) > 1 else 1
    panel.set_xlim(times[0] - step, times[-1] + step)
    panel.margins(y=0.18)
    panel.spines[["top", "right"]].set_visible(False)
