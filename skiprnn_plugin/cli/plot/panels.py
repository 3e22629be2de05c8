"""Samples of sequences of numbers: a panel for each sequence, what was used and what was skipped over time."""

from typing import List, NamedTuple, Optional

import numpy as np

from ...runs.checkpoint import Loaded
from .figures import new_figure
from .read_samples import Read

# Red and blue as in the paper; different in lightness and shape too, for readers who see them alike
USED = {"color": "#d62728", "marker": "o", "markersize": 5.5, "zorder": 3}
SKIPPED = {"color": "#1f77b4", "marker": "x", "markersize": 5.5, "markeredgewidth": 1.5, "zorder": 3}
MARKED = {"color": "black", "marker": "o", "markersize": 12, "markerfacecolor": "none", "zorder": 2}
WAVE = {"color": "0.75", "linewidth": 0.8, "zorder": 2}


class Samples(NamedTuple):
    """What is drawn of N sequences of T steps.

    Attributes:
        times: where the steps are on the horizontal axis, [T].
        time_label: of the horizontal axis.
        values: [N, T].
        value_label: of the vertical axis.
        used: True where the model updated its state (in either direction), bool [N, T].
        outcomes: what was to be predicted and what was, in words, N of them.
        marked: True at the samples to add up, bool [N, T]; None where samples are of a wave instead.
    """

    times: np.ndarray
    time_label: str
    values: np.ndarray
    value_label: str
    used: np.ndarray
    outcomes: List[str]
    marked: Optional[np.ndarray]


def make_adding(loaded: Loaded, read: Read) -> Samples:
    return Samples(
        times=np.arange(1, read.x.shape[1] + 1),
        time_label="time step",
        values=read.x[:, :, 0],
        value_label="value",
        used=read.used,
        outcomes=[f"target {t:.3f}, predicted {p:.3f}" for t, p in zip(read.target, read.prediction[:, 0])],
        marked=read.x[:, :, 1] > 0,
    )


def make_frequency(loaded: Loaded, read: Read) -> Samples:
    return Samples(
        times=np.arange(read.x.shape[1]) * loaded.options["sampling_period"],
        time_label="time (ms)",
        values=read.x[:, :, 0],
        value_label="amplitude",
        used=read.used,
        outcomes=[f"class {t}, predicted {p}" for t, p in zip(read.target, read.prediction.argmax(1))],
        marked=None,
    )


def draw(samples: Samples):
    """A matplotlib figure with a panel for each sequence."""
    count, steps = samples.values.shape
    figure = new_figure(height=1.75 * count + 0.3)
    panels = figure.subplots(count, sharex=True, sharey=True, squeeze=False)[:, 0]
    for index, panel in enumerate(panels):
        _draw_sequence(panel, samples, index)
        used = samples.used[index].sum()
        panel.set_title(f"{samples.outcomes[index]}, used {used} of {steps}", loc="left", fontsize=10)
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
        kinds.append(("marked: to be added up", samples.marked[index], MARKED))
    for label, chosen, style in kinds:
        panel.plot(times[chosen], values[chosen], linestyle="none", label=label, **style)
    panel.set_ylabel(samples.value_label)
    step = times[1] - times[0] if len(times) > 1 else 1
    panel.set_xlim(times[0] - step, times[-1] + step)
    panel.margins(y=0.18)
    panel.spines[["top", "right"]].set_visible(False)
