"""Samples of images read pixel by pixel or row by row: the used and the skipped pixels in their places."""

import math
from typing import List, NamedTuple

import numpy as np

from ...runs.checkpoint import Loaded
from .figures import new_figure
from .read_samples import Read

PER_ROW = 4
# From black to white pixels; used ones red and skipped ones blue, as in the paper
USED = ((0.99, 0.86, 0.85), (0.65, 0.05, 0.08))
SKIPPED = ((0.87, 0.92, 0.97), (0.03, 0.25, 0.53))


class Images(NamedTuple):
    """What is drawn of N square images.

    Attributes:
        pixels: brightness from 0 to 1, [N, side, side].
        used: bool [N, side, side].
        titles: N of them.
    """

    pixels: np.ndarray
    used: np.ndarray
    titles: List[str]


def make(loaded: Loaded, read: Read) -> Images:
    """The task's ``permutation`` says where each of a sequence's pixels stands in the image, unless it is None."""
    count, steps, width = read.x.shape
    side, permutation = math.isqrt(steps * width), loaded.task.permutation
    places = np.arange(steps * width) if permutation is None else permutation
    pixels = np.empty((count, steps * width), dtype=read.x.dtype)
    used = np.empty(pixels.shape, dtype=bool)
    pixels[:, places] = read.x.reshape(count, -1)
    used[:, places] = read.used.repeat(width, axis=1)
    titles = [
        f"label {target}, predicted {prediction}\nused {number} of {steps}"
        for target, prediction, number in zip(read.target, read.prediction.argmax(1), read.used.sum(1))
    ]
    return Images(pixels.reshape(count, side, side), used.reshape(count, side, side), titles)


def draw(images: Images):
    """A matplotlib figure with the images in rows of ``PER_ROW``."""
    from matplotlib.patches import Patch

    rows = math.ceil(len(images.pixels) / PER_ROW)
    figure = new_figure(height=2.67 * rows + 0.3)
    figure.get_layout_engine().set(h_pad=0.08)
    panels = figure.subplots(rows, PER_ROW, squeeze=False).flatten()
    for panel in panels:
        panel.set_axis_off()
    for panel, image, title in zip(panels, colour(images), images.titles):
        panel.imshow(image, interpolation="nearest")
        panel.set_title(title, fontsize=10)
    keys = [Patch(color=colors[1], label=label) for label, colors in (("used", USED), ("skipped", SKIPPED))]
    figure.legend(handles=keys, loc="outside upper right", ncol=2, frameon=False)
    return figure


def colour(images: Images) -> np.ndarray:
    """RGB from 0 to 1, [N, side, side, 3]."""
    brightness = images.pixels[..., None]
    (black, white), (skipped_black, skipped_white) = np.array(USED), np.array(SKIPPED)
    used = black + brightness * (white - black)
    skipped = skipped_black + brightness * (skipped_white - skipped_black)
    return np.where(images.used[..., None], used, skipped)
