"""Samples of images read pixel by pixel or row by row: the used and the skipped pixels in their places."""

import math
from typing import List, NamedTuple, Optional

import numpy as np

from ...arguments import UserError
from ...runs.samples import Read, describe_sample
from .elements import Colors, add_captions, add_legend, add_title, get_colors, get_width, make_caption, mix, new_figure

WIDTH = 1.05  # inches of an image and the gap beside it, at least


class Images(NamedTuple):
    """What is drawn of N images.

    Attributes:
        pixels: brightness from 0 to 1, [N, height, width].
        used: bool [N, height, width].
        captions: N of them.
    """

    pixels: np.ndarray
    used: np.ndarray
    captions: List[str]


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
    captions = [
        make_caption(describe_sample(task, read, index), read.used[index].sum(), steps, "\n") for index in range(count)
    ]
    return Images(pixels.reshape(count, height, row), used.reshape(count, height, row), captions)


def draw(images: Images, title: Optional[str] = None):
    """A matplotlib figure with the images in rows, as many in a row as the width has room for; without any titles if
    ``title`` is empty."""
    count, height, width = images.pixels.shape
    columns = max(int(get_width() / WIDTH), 1)
    rows = math.ceil(count / columns)
    room = get_width() / columns
    figure = new_figure(rows * (room - 0.1) * height / width + 0.1)
    from matplotlib.patches import Patch

    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    for panel in panels:
        panel.set_axis_off()
    colors = get_colors()
    for panel, image in zip(panels, colour(images, colors)):
        panel.imshow(image, interpolation="nearest")
    add_captions(figure, panels, images.captions, title, room - 0.08)
    # The colours of the brightest pixels, which are what a drawing of an image consists of
    keys = [Patch(color=_ends(colors, is_used)[1]) for is_used in (True, False)]
    add_legend(figure, keys, ["used", "skipped"])
    add_title(figure, title or "")
    return figure


def _ends(colors: Colors, is_used: bool):
    """The colours of black and of white pixels: paper and ink."""
    if is_used:
        return colors.paler(0.22), mix(colors.used, (0, 0, 0), 0.8)
    return (0.95, 0.95, 0.95), (0.55, 0.55, 0.55)


def colour(images: Images, colors: Colors) -> np.ndarray:
    """RGB from 0 to 1, [N, height, width, 3]."""
    brightness = images.pixels[..., None]
    ends = [map(np.array, _ends(colors, is_used)) for is_used in (True, False)]
    used, skipped = (black + brightness * (white - black) for black, white in ends)
    return np.where(images.used[..., None], used, skipped)
