"""Pictures of feature sequences, even of thousands of steps: features over time, and marks below the used steps."""

from typing import List, NamedTuple

import numpy as np

from ...runs.samples import Read, describe_sample
from .figures import new_figure

MOST_CURVES = 8  # more features are drawn as one curve
MARKS = {"lineoffsets": 0.05, "linelengths": 0.1, "linewidths": 0.7, "color": "#d62728"}  # in heights of the panel


class Features(NamedTuple):
    """What is drawn of N sequences.

    Attributes:
        curves: N arrays [T, number of curves].
        used: N arrays, bool [T].
        titles: N of them.
        label: the label of the vertical axis.
    """

    curves: List[np.ndarray]
    used: List[np.ndarray]
    titles: List[str]
    label: str


def make(task, read: Read) -> Features:
    """The features as the model reads them; if there are many, their root mean square."""
    width = read.x.shape[2]
    curves, used, titles = [], [], []
    for index, length in enumerate(read.lengths):
        x = read.x[index, :length]
        curves.append(x if width <= MOST_CURVES else np.sqrt((x**2).mean(1, keepdims=True)))
        used.append(read.used[index, :length])
        outcome = describe_sample(task, read, index)
        titles.append(", ".join(filter(None, [outcome, f"used {used[-1].sum():,} of {length:,}"])))
    label = "features" if width <= MOST_CURVES else f"root mean square\nof {width:,} features"
    return Features(curves, used, titles, label)


def draw(features: Features):
    """A matplotlib figure with a panel for each sequence."""
    count = len(features.curves)
    figure = new_figure(height=1.75 * count + 0.3)
    panels = figure.subplots(count, sharex=True, squeeze=False)[:, 0]
    for panel, curves, used, title in zip(panels, features.curves, features.used, features.titles):
        panel.plot(curves, linewidth=0.5, color="0.55", alpha=0.8)
        panel.eventplot(used.nonzero()[0], transform=panel.get_xaxis_transform(), **MARKS)
        panel.margins(x=0.01)  # room for the first step's mark beside the axis
        low, high = panel.get_ylim()
        panel.set_ylim(low - 0.15 * (high - low), high)  # room for the marks
        panel.set_title(title, loc="left", fontsize=10, parse_math=False)  # classes may have a $ in their names
        panel.set_ylabel(features.label)
        panel.spines[["top", "right"]].set_visible(False)
    panels[-1].set_xlabel("step (marked in red: used)")
    return figure
