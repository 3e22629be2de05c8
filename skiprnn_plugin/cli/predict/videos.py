"""Videos as the input of models that read features of frames: encoded as their training data were."""

import argparse
import itertools
from pathlib import Path
from typing import Any, Dict, Iterator, NamedTuple, Optional, Sequence

import numpy as np

from ...arguments import UserError
from ...reading import show_progress


def add_weights_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--weights",
        type=Path,
        metavar="FILE",
        help="for videos: the weights that skiprnn-prepare video encoded the model's data with",
    )


def is_video(path: str) -> bool:
    """Whether the file's name is a video's."""
    from ...prepare.video import SUFFIXES

    return Path(path).suffix.lower() in SUFFIXES


class VideoReader(NamedTuple):
    """Reads videos for a model.

    Attributes:
        encoder: makes features of frames, a :class:`skiprnn_plugin.prepare.frame_encoder.FrameEncoder`.
        frame_rate: frames in a second.
        dtype: of the features that the model was trained on.
        most: how many frames the model reads of a video's beginning; None if it reads its end, or all.
    """

    encoder: Any
    frame_rate: float
    dtype: np.dtype
    most: Optional[int]

    def frames(self, path: str) -> Iterator[np.ndarray]:
        """RGB, uint8 [H, W, 3], one after the other; :class:`UserError` if the video can't be read."""
        from ...prepare.video import read_frames

        try:
            yield from itertools.islice(read_frames(Path(path), self.frame_rate), self.most)
        except (ImportError, ValueError) as error:
            raise UserError(str(error)) from error

    def encode(self, path: str) -> np.ndarray:
        """The features of its frames, [T, D], rounded as the model's data are. Shows a bar if it takes long."""
        from ...data.features import as_finite

        features = self.encoder.encode(show_progress(self.frames(path), path, unit=" frames"))
        try:
            return as_finite(features, self.dtype)
        except ValueError as error:
            raise UserError(f"{path}: {error}") from error


def open_videos(hub, files: Sequence[str], weights: Optional[Path]) -> Optional[VideoReader]:
    """A reader of the videos among the files, with the encoder that made the model's data; None without videos.

    Raises :class:`UserError` if there is no such encoder, or if the first frame of a video can't be read.
    """
    videos = list(filter(is_video, files))
    if not videos:
        if weights is not None:
            raise UserError("--weights: expected a video to encode, got none")
        return None
    reader = _open_reader(hub, weights)
    for video in videos:
        next(reader.frames(video))
    return reader


def _open_reader(hub, weights: Optional[Path]) -> VideoReader:
    from ...prepare.frame_encoder import FrameEncoder, read_encoding

    if weights is None:
        raise UserError(
            "--weights: expected the file that skiprnn-prepare video was given, which videos need, got none"
        )
    try:
        made = read_encoding(hub.task.video_folder)
        if hub.task.input_size != FrameEncoder.width:
            raise ValueError(
                f"videos have {FrameEncoder.width:,} features in a frame, the model reads {hub.task.input_size:,}"
            )
        encoder = FrameEncoder(weights)
    except (ImportError, ValueError) as error:
        raise UserError(str(error)) from error
    _check_weights(made.encoder, encoder.description)
    return VideoReader(encoder, made.frame_rate, made.dtype, hub.task.head_steps)


def _check_weights(made: Dict[str, Any], given: Dict[str, Any]) -> None:
    if given["weights_crc32"] != made["weights_crc32"]:
        expected, got = (f"{weights['weights']} (crc32 {weights['weights_crc32']})" for weights in (made, given))
        raise UserError(f"--weights: expected those that the model's data were made with, {expected}, got {got}")
