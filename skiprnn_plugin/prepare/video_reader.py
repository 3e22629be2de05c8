"""Turns a user's videos into a model's input: features of their frames, made like the model's training data."""

import itertools
import time
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from ..arguments import UserError
from ..reading import show_progress


class VideoWork(NamedTuple):
    """What it took to turn a video into features.

    Attributes:
        encoded: which of its frames were encoded, bool [T].
        seconds: the time that decoding and encoding took.
    """

    encoded: np.ndarray
    seconds: float


class VideoReader(NamedTuple):
    """Reads videos for a model.

    Attributes:
        encoder: computes the features, a :class:`skiprnn_plugin.prepare.frame_encoder.FrameEncoder`.
        frame_rate: frames in a second.
        dtype: the type of the features that the model was trained on.
        most: how many frames the model reads, if it reads a video's first ones; None if it reads the last ones, or all.
        stream: a stream of the model, of one row, to encode only the frames that it wants, a
            :class:`skiprnn_plugin.hub.PredictingStream`; None to encode all frames.
    """

    encoder: Any
    frame_rate: float
    dtype: np.dtype
    most: Optional[int]
    stream: Optional[Any] = None

    def frames(self, path: str) -> Iterator[np.ndarray]:
        """Yield the frames, uint8 RGB [H, W, 3]. Raises :class:`UserError` if the video can't be read."""
        from .video import read_frames

        try:
            yield from itertools.islice(read_frames(Path(path), self.frame_rate), self.most)
        except (ImportError, ValueError) as error:
            raise UserError(str(error)) from error

    def encode(self, path: str) -> Tuple[np.ndarray, VideoWork]:
        """The features of a video's frames, [T, D], in the model's ``dtype``, and what they took. Shows a progress bar
        if it takes long.

        Features of frames that were not encoded are 0: the model skips these frames, whatever they hold.

        Raises :class:`UserError` if the video can't be read, or a feature is too large for ``dtype``.
        """
        began = time.perf_counter()
        if self.stream is None:
            features = self._encode(path, show_progress(self.frames(path), path, unit=" frames"))
            encoded = np.ones(len(features), bool)
        else:
            features, encoded = self._encode_wanted(path, self.stream)
        return features, VideoWork(encoded, time.perf_counter() - began)

    def _encode_wanted(self, path: str, stream: Any) -> Tuple[np.ndarray, np.ndarray]:
        """The features, [T, D], and which frames the stream wanted, bool [T].

        All frames are decoded, one after the other: most frames need the ones before them, and seeking is not exact in
        some files. Only the wanted ones are converted to images and encoded.
        """
        from .video import decode_frames

        stream.reset()
        found: List[np.ndarray] = []
        encoded: List[bool] = []
        try:
            frames = itertools.islice(decode_frames(Path(path), self.frame_rate), self.most)
            for number, frame in enumerate(show_progress(frames, path, unit=" frames")):
                encoded.append(int(stream.wanted[0]) == number)
                if encoded[-1]:
                    found.append(self._encode(path, [frame.image]))
                    stream.skip(number - stream.time)
                    stream.update(found[-1])
        except (ImportError, ValueError) as error:
            raise UserError(str(error)) from error
        features = np.zeros((len(encoded), self.encoder.width), self.dtype)
        if found:
            features[encoded] = np.concatenate(found)
        return features, np.array(encoded)

    def _encode(self, path: str, images: Iterable[np.ndarray]) -> np.ndarray:
        from ..data.features import as_finite

        features = self.encoder.encode(images)
        try:
            return as_finite(features, self.dtype)
        except ValueError as error:
            raise UserError(f"{path}: {error}") from error


def open_reader(
    folder: Path, record: Optional[Mapping[str, Any]], width: int, weights: Path, most: Optional[int]
) -> VideoReader:
    """The reader of videos for a model that was trained on a folder made by ``skiprnn-prepare video``.

    Args:
        folder: that folder; only its ``prepare.json`` is read.
        record: what :func:`~skiprnn_plugin.prepare.frame_encoder.find_encoding_options` has found there, so that the
            folder is not needed any more; None to read it now.
        width: the number of features that the model reads at each step.
        weights: the file of the encoder's weights, which must be those that the folder was made with.
        most: see :class:`VideoReader`.

    Raises :class:`UserError` if ``prepare.json`` or the weights can't be read or do not fit the model.
    """
    from .frame_encoder import FrameEncoder, read_encoding

    try:
        made = read_encoding(folder, record)
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
