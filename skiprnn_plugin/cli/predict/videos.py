"""Videos among the inputs of a command: which files they are, and the reader that the model needs for them."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Optional, Sequence

from ...arguments import UserError

if TYPE_CHECKING:  # importing it imports fairseq, which takes seconds
    from ...prepare.video_reader import VideoReader


def add_weights_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--weights",
        type=Path,
        metavar="FILE",
        help="for videos: the weights that skiprnn-prepare video encoded the model's data with",
    )


def open_videos(hub, files: Sequence[str], weights: Optional[Path]) -> Optional["VideoReader"]:
    """A reader of the videos among the files, with the encoder that made the model's data; None without videos.

    Raises :class:`UserError` if there is no such encoder, or if the first frame of a video can't be read.
    """
    from ...prepare.video import is_video
    from ...prepare.video_reader import open_reader

    videos = [] if hub.task.video_folder is None else list(filter(is_video, files))
    if not videos:
        if weights is not None:
            raise UserError("--weights: expected a video to encode, got none")
        return None
    if weights is None:
        raise UserError(
            f"--weights: expected the file that skiprnn-prepare video was given, which {videos[0]} needs as a video, "
            "got none"
        )
    reader = open_reader(hub.task.video_folder, hub.task.input_size, weights, hub.task.head_steps)
    for video in videos:
        next(reader.frames(video))
    return reader
