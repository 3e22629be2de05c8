"""Videos of a user's own as a model's input: features of their frames, made as the model's training data were."""

import itertools
from pathlib import Path
from typing import Any, Dict, Iterator, NamedTuple, Optional

import numpy as np

from ..arguments import UserError
from ..reading import show_progress


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
        from .video import read_frames

        try:
            yield from itertools.islice(read_frames(Path(path), self.frame_rate), self.most)
        except (ImportError, ValueError) as error:
            raise UserError(str(error)) from error

    def encode(self, path: str) -> np.ndarray:
        """The features of its frames, [T, D], rounded as the model's data are. Shows a bar if it takes long."""
        from ..data.features import as_finite

        features = self.encoder.encode(show_progress(self.frames(path), path, unit=" frames"))
        try:
            return as_finite(features, self.dtype)
        except ValueError as error:
            raise UserError(f"{path}: {error}") from error


def open_reader(folder: Path, width: int, weights: Path, most: Optional[int]) -> VideoReader:
    """The reader of videos for a model that was trained on what ``skiprnn-prepare video`` wrote to ``folder``.

    Args:
        folder: it needs no more than its record of how the videos were encoded.
        width: features that the model reads at each step.
        weights: the encoder's, which must be those that the folder was made with.
        most: see :class:`VideoReader`.

    Raises :class:`UserError` if the folder's encoder can't be made.
    """
    from .frame_encoder import FrameEncoder, read_encoding

    try:
        made = read_encoding(folder)
        if width != FrameEncoder.width:
            raise ValueError(f"videos have {FrameEncoder.width:,} features in a frame, the model reads {width:,}")
        encoder = FrameEncoder(weights)
    except (ImportError, ValueError) as error:
        raise UserError(str(error)) from error
    _check_weights(made.encoder, encoder.description)
    return VideoReader(encoder, made.frame_rate, made.dtype, most)


def _check_weights(made: Dict[str, Any], given: Dict[str, Any]) -> None:
    if given["weights_crc32"] != made["weights_crc32"]:
        expected, got = (f"{weights['weights']} (crc32 {weights['weights_crc32']})" for weights in (made, given))
        raise UserError(f"--weights: expected those that the model's data were made with, {expected}, got {got}")
