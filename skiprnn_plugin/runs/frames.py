"""What a model does with a video, for the figure of its frames."""

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Iterable, NamedTuple

import numpy as np

from ..arguments import UserError
from ..reading import show_line

if TYPE_CHECKING:  # importing it imports fairseq, which takes seconds
    from ..prepare.video_reader import VideoReader

SIDE = 96  # pixels of a frame's longer side


class Sheet(NamedTuple):
    """What is drawn of a video.

    Attributes:
        frames: N of them, small, in their order, RGB, uint8 [N, h, w, 3].
        used: where the model updated its state (in either direction), bool [N].
        times: when each frame is shown, in seconds, [N].
        title: the text above the frames.
    """

    frames: np.ndarray
    used: np.ndarray
    times: np.ndarray
    title: str


def read_sheet(hub, videos: "VideoReader", path: str, most: int) -> Sheet:
    """Run the video through the model, and then read the frames that are to be drawn once more.

    Frames are drawn whole, though the encoder sees only the centre of each.
    """
    from .inputs import describe_video, read_inputs
    from .outcomes import find_likeliest

    (read,) = read_inputs(hub, [path], [], videos)
    try:
        (prediction,) = hub.run([read.encoded])
    except (ImportError, ValueError) as error:  # an engine that can't run here
        raise UserError(str(error)) from error
    show_line(describe_video(read, prediction))
    used, count = np.atleast_2d(prediction.used).any(0), len(read.kept)
    label, probability = find_likeliest(hub, read, prediction)
    title = f"{Path(path).name}: {label} {probability:.2f}, used {used[:count].sum():,} of {count:,} frames"
    if used.size > count:
        title += f" (and {used[count:].sum():,} of {used.size - count:,} steps of padding)"
    if count > most:
        title += f", the first {most:,} shown"
    kept = read.kept[:most]
    frames = shrink(itertools.islice(videos.frames(path), kept.start, kept.stop))
    return Sheet(frames, used[: len(kept)], np.array(kept) / videos.frame_rate, title)


def shrink(frames: Iterable[np.ndarray]) -> np.ndarray:
    """Scale frames to the size of the first, with a longer side of ``SIDE`` pixels; uint8 [N, h, w, 3]."""
    from PIL import Image

    images = map(Image.fromarray, frames)
    first = next(images)
    scale = SIDE / max(first.size)
    size = [max(round(scale * side), 1) for side in first.size]
    return np.stack([np.asarray(image.resize(size)) for image in itertools.chain([first], images)])
