"""A user's own sequences as the model reads them, from files, texts and the lines of standard input."""

import contextlib
import errno
import sys
import textwrap
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from ..arguments import UserError
from ..hub import PredictingStream, Prediction, SkipRNNHub
from ..prepare.input_files import DECIMAL_POINTS, READERS, read_lines
from ..prepare.tables import find_delimiter
from ..prepare.video import is_video
from ..prepare.video_reader import VideoReader, VideoWork, open_reader
from ..reading import describe_encoding_error, first_sentence

TABLES = (".csv", ".tsv")
STANDARD_INPUT = "-"
NAME_WIDTH = 60  # characters of a text that name it in the output


class Input(NamedTuple):
    """A sequence that a model is to read.

    Attributes:
        name: what to call it.
        encoded: the sequence as the model reads it (see :meth:`skiprnn_plugin.hub.SkipRNNHub.encode`).
        kept: the steps of the user's sequence that ``encoded`` holds; others are cropped. Further steps of ``encoded``
            are padding, at its end.
        video: what encoding it took, if it is a video.
    """

    name: str
    encoded: Tensor
    kept: range
    video: Optional[VideoWork] = None


def check_inputs(hub: SkipRNNHub, files: Sequence[str], texts: Sequence[str]) -> None:
    """Raise :class:`UserError`, before any is read, for an input that does not exist or that the task does not take."""
    task, suffixes, reads_videos = hub.cfg.task._name, [*_find_readers(hub)], hub.task.inputs.video_folder is not None
    kinds = [f"a file {' or '.join(suffixes)}"] if suffixes else []
    if reads_videos:
        kinds.append("a video")
    if "texts" not in hub.input_kinds and (texts or STANDARD_INPUT in files):
        flag = "--text" if texts else STANDARD_INPUT
        raise UserError(f"{flag}: expected a model that reads texts, got one of task {task}")
    for file in files:
        if file == STANDARD_INPUT:
            continue
        _check_exists(file, "texts" in hub.input_kinds)
        if _suffix(file) not in suffixes and not (reads_videos and is_video(file)):
            raise UserError(f"{file}: expected {' or '.join(kinds)}, as models of task {task} read")


def _check_exists(file: str, is_perhaps_text: bool) -> None:
    """Raise :class:`UserError` unless there is such a file. For a model that reads texts, a name may be a text."""
    hint = "; a text is given by --text" if is_perhaps_text else ""
    try:
        if Path(file).is_file():
            return
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise UserError(f"{' '.join(file.split())[:NAME_WIDTH]}...: {error.strerror}{hint}") from error
    if Path(file).is_dir():
        raise UserError(f"{file}: expected a file, got a folder")
    raise UserError(f"{file}: no such file{hint}")


def _find_readers(hub: SkipRNNHub) -> Dict[str, Callable[[str], Any]]:
    """What reads a file of each suffix, except videos; :class:`UserError` if the task's ``inputs`` are not of use."""
    kinds = hub.input_kinds
    if not READERS.keys() >= {*kinds} or {"numbers", "token_ids"} <= {*kinds}:
        raise UserError(
            f"task {hub.cfg.task._name}: expected inputs.kinds to be texts, and numbers or token_ids, got "
            f"{hub.task.inputs.kinds!r}"
        )
    readers = {suffix: reader for kind in kinds for suffix, reader in READERS[kind].items()}
    return {**readers, **hub.task.inputs.readers}


def _suffix(file: str) -> str:
    return Path(file).suffix.lower()


def open_videos(
    hub: SkipRNNHub, files: Sequence[str], weights: Optional[Path], encode_all: bool = False
) -> Optional[VideoReader]:
    """A reader of the videos among the files, with the encoder that made the model's data; None without videos.

    It encodes the frames that a stream of the model wants; or all of them with ``encode_all``, or if the model has no
    such stream, which standard error then says.

    Raises :class:`UserError` if there is no such encoder, or if the first frame of a video can't be read.
    """
    inputs = hub.task.inputs
    videos = []
    if inputs.video_folder is not None:
        videos = [file for file in files if _suffix(file) not in inputs.readers and is_video(file)]
    if not videos:
        if weights is not None:
            raise UserError("--weights: expected a video to encode, got none")
        if encode_all:
            raise UserError("--encode-all: expected a video to encode, got none")
        return None
    if weights is None:
        raise UserError(
            f"--weights: expected the file that skiprnn-prepare video was given, which {videos[0]} needs as a video, "
            "got none"
        )
    reader = open_reader(inputs.video_folder, inputs.video_record, hub.task.input_size, weights, inputs.head_steps)
    for video in videos:
        next(reader.frames(video))
    if encode_all:
        return reader
    try:
        return reader._replace(stream=_open_stream(hub))
    except ValueError as error:
        print(f"all frames are encoded, not only those that the model uses ({error})", file=sys.stderr)
        return reader


def _open_stream(hub: SkipRNNHub) -> PredictingStream:
    """A stream that wants the frames that ``hub.run`` uses; ValueError for a model that has none, or wants all."""
    stream = hub.stream()  # which says why not, for instance for a model that skips at random
    if not getattr(hub.model, "has_gate", True):
        raise ValueError("the model has no gate, and uses every frame")
    if getattr(getattr(hub.model, "decisions", None), "exist", False):
        raise ValueError("--binarize: expected round, got bernoulli, which draws other updates for every input")
    return stream


def read_inputs(
    hub: SkipRNNHub, files: Sequence[str], texts: Sequence[str], videos: Optional[VideoReader] = None
) -> Iterator[Input]:
    """Texts first, then files, each read when its turn comes; :class:`UserError` for one that the model can't read.

    ``videos`` reads the files that are videos.
    """
    for text in texts:
        yield _encode_text(hub, _shorten(text) or "--text", text)
    readers = _find_readers(hub)
    for file in files:
        if file == STANDARD_INPUT:
            for line in read_lines(sys.stdin):
                yield _encode_text(hub, _shorten(line), line)
        elif _suffix(file) in readers:  # perhaps the task's own reader of files that are named as videos are
            yield from _encode(hub, file, _read(readers[_suffix(file)], file))
        else:
            features, work = videos.encode(file)
            for read in _encode(hub, file, features):
                yield read._replace(video=work)


def describe_video(read: Input, prediction: Prediction) -> str:
    """How many frames of a video the model used, how many were encoded, and how long that took.

    Raises :class:`UserError` if the model used a frame that was not encoded: in a batch, with some engines, rounding
    can differ from that of the stream which chose the frames.
    """
    used, kept = np.atleast_2d(prediction.used).any(0)[: len(read.kept)], read.kept
    if (used & ~read.video.encoded[kept.start : kept.stop]).any():
        raise UserError(f"{read.name}: rounding made the model use a frame that was not encoded; use --encode-all")
    return (
        f"{read.name}: used {used.sum():,} of {used.size:,} frames, encoded {read.video.encoded.sum():,} in "
        f"{read.video.seconds:.2f} s"
    )


def _read(reader: Callable[[str], Any], file: str) -> Any:
    try:
        return reader(file)
    except UserError:
        raise
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: {describe_encoding_error(error)}") from error
    except Exception as error:  # a file can be broken in any way
        raise UserError(f"{file}: can't be read ({first_sentence(error)})") from error


def _shorten(text: str) -> str:
    return textwrap.shorten(text, NAME_WIDTH, placeholder="...")


def _encode(hub: SkipRNNHub, name: str, raw: Any) -> Iterator[Input]:
    """What a file holds: a text, an array of one or N sequences, or a sequence as the task's own reader returns it."""
    if isinstance(raw, str):
        yield _encode_text(hub, name, raw)
        return
    if not isinstance(raw, np.ndarray):
        yield _encode_sequence(hub, name, raw)
        return
    if raw.dtype.kind not in "biuf":
        raise UserError(f"{name}: expected numbers, got {raw.dtype}")
    if raw.ndim == 0 or raw.size == 0:
        raise UserError(f"{name}: expected at least one step, got shape {raw.shape}")
    for part_name, part in _split(hub, name, raw):
        yield _encode_sequence(hub, part_name, part)


def _encode_text(hub: SkipRNNHub, name: str, text: str) -> Input:
    if not text.strip():
        raise UserError(f"{name}: expected a text, it is empty")
    try:
        encoded = hub.encode(text)
    except ValueError as error:
        raise UserError(f"{name}: {error}") from error
    return Input(name, encoded, range(len(encoded)))


def _encode_sequence(hub: SkipRNNHub, name: str, raw: Any) -> Input:
    try:
        encoded = _encode_steps(hub, raw)
    except ValueError as error:
        raise UserError(f"{name}: {error}") from error
    if "token_ids" in hub.input_kinds:
        encoded = torch.from_numpy(hub.task.fit_token_ids(encoded.numpy()))
    elif not hub.reads_words:
        wrong = (~encoded.isfinite()).any(1).nonzero()
        if len(wrong):
            raise UserError(f"{name}: expected finite numbers, got others in step {int(wrong[0])} (from 0)")
    return Input(name, encoded, hub.task.kept_steps(raw, len(encoded)))


def _split(hub: SkipRNNHub, name: str, array: np.ndarray) -> Iterable[Tuple[str, np.ndarray]]:
    """The array as one sequence if the model reads it as one, otherwise as N sequences."""
    try:
        _encode_steps(hub, array)
        return [(name, array)]
    except ValueError as error:
        try:
            _encode_steps(hub, array[0])
        except ValueError:
            raise UserError(f"{name}: {error}") from error
    if _suffix(name) in TABLES:  # one sequence
        hint = DECIMAL_POINTS if array.shape[1] == 2 and find_delimiter(Path(name)) == "," else ""
        raise UserError(f"{name}: expected one number on each line, got {array.shape[1]}{hint}")
    return ((f"{name}[{index}]", part) for index, part in enumerate(array))


def _encode_steps(hub: SkipRNNHub, raw: Any) -> Tensor:
    """As ``hub.encode``, and an array [T] as [T, 1] too."""
    if not isinstance(raw, np.ndarray):
        return hub.encode(raw)
    try:
        return hub.encode(raw)
    except ValueError:
        if raw.ndim == 1:
            with contextlib.suppress(ValueError):
                return hub.encode(raw[:, None])
        raise
