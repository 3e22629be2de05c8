"""Samples of sequences of features, perhaps thousands of steps: the features over time, and marks below where used."""

from typing import Callable, List, NamedTuple, Sequence

import numpy as np

from ...runs.checkpoint import Loaded
from .figures import new_figure
from .read_samples import Read

MOST_CURVES = 8  # more features are drawn as one curve
MOST_NAMES = 4  # of classes, in a title
MARKS = {"lineoffsets": 0.05, "linelengths": 0.1, "linewidths": 0.7, "color": "#d62728"}  # as high as the panel is 1

# In words, from the classes' names, a sequence's target and its prediction
Describe = Callable[[Sequence[str], np.ndarray, np.ndarray], str]


class Features(NamedTuple):
    """What is drawn of N sequences.

    Attributes:
        curves: of each sequence, [T, number of curves].
        used: bool [T] each.
        titles: N of them.
        label: of the vertical axis.
    """

    curves: List[np.ndarray]
    used: List[np.ndarray]
    titles: List[str]
    label: str


def _describe_class(names: Sequence[str], target: np.ndarray, prediction: np.ndarray) -> str:
    return f"label {names[target]}, predicted {names[prediction.argmax()]}"


def _describe_labels(names: Sequence[str], target: np.ndarray, prediction: np.ndarray) -> str:
    """Of targets and predictions [T, C]: which classes are there at any step, and as many that are the likeliest."""
    true = target.any(0).nonzero()[0]
    likeliest = np.argsort(-prediction.max(0), kind="stable")[: max(len(true), 1)]
    listed, predicted = (" ".join(names[number] for number in numbers[:MOST_NAMES]) for numbers in (true, likeliest))
    return f"labels {listed or 'none'}, likeliest {predicted}"


def make(loaded: Loaded, read: Read, describe: Describe = _describe_class) -> Features:
    """The features as the model reads them; of many, their root mean square."""
    width = read.x.shape[2]
    curves, used, titles = [], [], []
    for index, length in enumerate(read.lengths):
        x = read.x[index, :length]
        curves.append(x if width <= MOST_CURVES else np.sqrt((x**2).mean(1, keepdims=True)))
        used.append(read.used[index, :length])
        outcome = describe(loaded.task.class_names, read.target[index], read.prediction[index])
        titles.append(f"{outcome}, used {used[-1].sum():,} of {length:,}")
    label = "features" if width <= MOST_CURVES else f"root mean square\nof {width:,} features"
    return Features(curves, used, titles, label)


def make_localization(loaded: Loaded, read: Read) -> Features:
    """The same of a task that predicts labels at every step."""
    real = np.arange(read.x.shape[1]) < read.lengths[:, None]
    prediction = np.where(real[:, :, None], read.prediction, -np.inf)
    return make(loaded, read._replace(prediction=prediction), _describe_labels)


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
