"""Tiny videos; the colour of a frame shows its number."""

import os
from fractions import Fraction

import numpy as np

HEIGHT, WIDTH = 48, 64


def image(number):
    """Frame ``number`` of every video, uint8 [HEIGHT, WIDTH, 3]: it has one colour, and its upper left quarter is
    white."""
    pixels = np.empty((HEIGHT, WIDTH, 3), np.uint8)
    pixels[:] = (5 * number % 256, 255 - 5 * number % 256, 100)
    pixels[: HEIGHT // 2, : WIDTH // 2] = 255
    return pixels


def write_video(path, count, rate=25, *, times=None, clock=None, first=0, container=None, change=None, **options):
    """Write the frames ``first`` to ``first + count - 1`` without loss.

    Args:
        path: the file; its suffix sets the format, unless ``container`` is given.
        rate: frames in a second.
        times, clock: when each frame is shown, in ticks, and the seconds of a tick; the default is one frame after the
            other at ``rate``.
        change: a function that changes the list of packets before they are written.
        options: the encoder's options.
    """
    import av

    os.makedirs(os.path.dirname(path), exist_ok=True)
    with av.open(str(path), "w", format=container) as file:
        stream = file.add_stream("libx264rgb", rate=Fraction(rate))
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "rgb24"
        stream.options = {"crf": "0", **options}
        stream.codec_context.time_base = clock or 1 / Fraction(rate)
        packets = []
        for number in range(count):
            frame = av.VideoFrame.from_ndarray(image(first + number), format="rgb24")
            frame.pts = number if times is None else times[number]
            frame.time_base = stream.codec_context.time_base
            packets += stream.encode(frame)
        packets += stream.encode()
        for packet in packets if change is None else change(packets):
            file.mux(packet)
    return path
