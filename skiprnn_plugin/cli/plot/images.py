"""Samples of images read pixel by pixel or row by row: the used and the skipped pixels in their places."""

import math
from typing import List, NamedTuple

import numpy as np

from ...arguments import UserError
from ...runs.samples import Read, describe_sample
from .figures import new_figure

PER_ROW = 4
# From black to white pixels; used ones red and skipped ones blue, as in the paper
USED = ((0.99, 0.86, 0.85), (0.65, 0.05, 0.08))
SKIPPED = ((0.87, 0.92, 0.97), (0.03, 0.25, 0.53))


class Images(NamedTuple):
    """What is drawn of N images.

    Attributes:
        pixels: brightness from 0 to 1, [N, height, width].
        used: bool [N, height, width].
        titles: N of them.
    """

    pixels: np.ndarray
    used: np.ndarray
    titles: List[str]


def make(task, read: Read) -> Images:
    """The task's ``drawing`` says where each of a sequence's pixels lies in the image.

    Raises :class:`UserError` if a sequence does not have the image's number of pixels.
    """
    count, steps, width = read.x.shape
    side = math.isqrt(steps * width)
    height, row = task.drawing.image_shape or (side, side)
    if height * row != steps * width or (read.lengths != steps).any():
        raise UserError(
            f"the task's drawing: expected images of {height} x {row} pixels, got sequences of {read.lengths.min()} to "
            f"{steps} steps with {width}"
        )
    places = np.arange(steps * width) if task.drawing.pixel_order is None else task.drawing.pixel_order
    pixels = np.empty((count, steps * width), dtype=read.x.dtype)
    used = np.empty(pixels.shape, dtype=bool)
    pixels[:, places] = read.x.reshape(count, -1)
    used[:, places] = read.used.repeat(width, axis=1)
    titles = [
        f"{describe_sample(task, read, index)}\nused {read.used[index].sum()} of {steps}" for index in range(count)
    ]
    return Images(pixels.reshape(count, height, row), used.reshape(count, height, row), titles)


def draw(images: Images):
    """A matplotlib figure with the images in rows of ``PER_ROW``."""
    rows = math.ceil(len(images.pixels) / PER_ROW)
    figure = new_figure(height=2.67 * rows + 0.3)
    from matplotlib.patches import Patch  # after new_figure, which can import matplotlib under any MPLBACKEND

    figure.get_layout_engine().set(h_pad=0.08)
    panels = figure.subplots(rows, PER_ROW, squeeze=False).flatten()
    for panel in panels:
        panel.set_axis_off()
    for panel, image, title in zip(panels, colour(images), images.titles):
        panel.imshow(image, interpolation="nearest")
        panel.set_title(title, fontsize=10, parse_math=False)
    keys = [Patch(color=colors[1], label=label) for label, colors in (("used", USED), ("skipped", SKIPPED))]
    figure.legend(handles=keys, loc="outside upper right", ncol=2, frameon=False)
    return figure


def colour(images: Images) -> np.ndarray:
    """RGB from 0 to 1, [N, height, width, 3]."""
    brightness = images.pixels[..., None]
    (black, white), (skipped_black, skipped_white) = np.array(USED), np.array(SKIPPED)
    used = black + brightness * (white - black)
    skipped = skipped_black + brightness * (skipped_white - skipped_black)
    return np.where(images.used[..., None], used, skipped)
