"""A user's own sequences, as ``skiprnn-predict`` is given them: files, texts and the lines of standard input."""

import contextlib
import csv
import itertools
import sys
import textwrap
from pathlib import Path
from typing import Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from ...arguments import UserError
from ...hub import SkipRNNHub
from ...prepare.video import is_video
from ...prepare.video_reader import VideoReader
from ...reading import first_sentence

STANDARD_INPUT = "-"
NAME_WIDTH = 60  # characters of a text that stand for it in the output


class Input(NamedTuple):
    """A sequence that a model is to read.

    Attributes:
        name: what to call it.
        encoded: the sequence as the model reads it (see :meth:`skiprnn_plugin.hub.SkipRNNHub.encode`).
        kept: the steps of the user's sequence that ``encoded`` holds; others are cropped. Further steps of ``encoded``
            are padding, at its end.
    """

    name: str
    encoded: Tensor
    kept: range


def check_inputs(hub: SkipRNNHub, files: Sequence[str], texts: Sequence[str]) -> None:
    """Raise :class:`UserError`, before any is read, for an input that does not exist or that the model can't read."""
    suffixes, kind = (WORD_FILES, "words") if hub.reads_words else (NUMBER_FILES, "numbers")
    reads_videos = hub.task.video_folder is not None
    if not hub.reads_words and (texts or STANDARD_INPUT in files):
        flag = "--text" if texts else STANDARD_INPUT
        raise UserError(f"{flag}: expected a model that reads words, got one of task {hub.cfg.task._name}")
    for file in files:
        if file == STANDARD_INPUT:
            continue
        if not Path(file).is_file():
            raise UserError(f"{file}: no such file")
        if Path(file).suffix.lower() not in suffixes and not (reads_videos and is_video(file)):
            expected = f"{' or '.join(suffixes)}{' or a video' if reads_videos else ''}"
            raise UserError(f"{file}: the model reads {kind}, expected a file {expected}")


def read_inputs(
    hub: SkipRNNHub, files: Sequence[str], texts: Sequence[str], videos: Optional[VideoReader] = None
) -> Iterator[Input]:
    """Texts first, then files, each read when its turn comes; :class:`UserError` for one that the model can't read.

    ``videos`` reads the files that are videos.
    """
    for text in texts:
        yield _encode_text(hub, _shorten(text) or "--text", text)
    for file in files:
        if file == STANDARD_INPUT:
            yield from _read_lines(hub)
            continue
        if is_video(file):
            yield from _encode_array(hub, file, videos.encode(file))
            continue
        try:
            raw = READERS[Path(file).suffix.lower()](file)
        except UserError:
            raise
        except Exception as error:  # a file can be broken in any way
            raise UserError(f"{file}: can't be read ({first_sentence(error)})") from error
        if isinstance(raw, str):
            yield _encode_text(hub, file, raw)
        else:
            yield from _encode_array(hub, file, raw)


def _read_lines(hub: SkipRNNHub) -> Iterator[Input]:
    is_empty = True
    try:
        for line in filter(str.strip, sys.stdin):
            is_empty = False
            yield _encode_text(hub, _shorten(line), line)
    except UnicodeDecodeError as error:
        raise UserError(f"standard input: can't be read ({first_sentence(error)})") from error
    if is_empty:
        raise UserError("standard input: expected a text on each line, it is empty")


def _shorten(text: str) -> str:
    return textwrap.shorten(text, NAME_WIDTH, placeholder="...")


def _encode_text(hub: SkipRNNHub, name: str, text: str) -> Input:
    if not text.strip():
        raise UserError(f"{name}: expected a text, it is empty")
    try:
        encoded = hub.encode(text)
    except ValueError as error:
        raise UserError(f"{name}: {error}") from error
    return Input(name, encoded, range(len(encoded)))


def _encode_array(hub: SkipRNNHub, name: str, array: np.ndarray) -> Iterator[Input]:
    if array.dtype.kind not in "biuf":
        raise UserError(f"{name}: expected numbers, got {array.dtype}")
    if array.ndim == 0 or array.size == 0:
        raise UserError(f"{name}: expected at least one step, got shape {array.shape}")
    for part_name, part in _split(hub, name, array):
        try:
            encoded = _encode_sequence(hub, part)
        except ValueError as error:
            raise UserError(f"{part_name}: {error}") from error
        if hub.reads_words:
            encoded = torch.from_numpy(hub.task.fit_token_ids(encoded.numpy()))
        steps = () if hub.reads_words else (~encoded.isfinite()).any(1).nonzero()
        if len(steps):
            raise UserError(f"{part_name}: expected finite numbers, got others in step {int(steps[0])} (from 0)")
        yield Input(part_name, encoded, hub.task.kept_steps(part, len(encoded)))


def _split(hub: SkipRNNHub, name: str, array: np.ndarray) -> Iterable[Tuple[str, np.ndarray]]:
    """The array as one sequence if the model reads it as one, otherwise as N sequences."""
    try:
        _encode_sequence(hub, array)
        return [(name, array)]
    except ValueError as error:
        try:
            _encode_sequence(hub, array[0])
        except ValueError:
            raise UserError(f"{name}: {error}") from error
    if Path(name).suffix.lower() == ".csv" and array.shape[1] == 2:
        raise UserError(f"{name}: expected a number on each line, got two{DECIMAL_POINTS}")
    return ((f"{name}[{index}]", part) for index, part in enumerate(array))


def _encode_sequence(hub: SkipRNNHub, array: np.ndarray) -> Tensor:
    """``hub.encode``, which reads [T] as [T, 1] too."""
    try:
        return hub.encode(array)
    except ValueError:
        if array.ndim == 1:
            with contextlib.suppress(ValueError):
                return hub.encode(array[:, None])
        raise


def _read_text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8-sig")


def _read_npy(path: str) -> np.ndarray:
    # A mapped file's header is held against its size, before there is memory for what it promises. Copy-on-write, as
    # torch warns of arrays that can't be written.
    return np.lib.format.open_memmap(path, mode="c")


def _read_csv(path: str) -> np.ndarray:
    """[T, D], a line for each step; integers if all are written so, as images of integers have another range.

    A first line without any number is a header. Numbers with decimal commas are refused where they can be told from
    whole numbers.
    """
    rows: List[List[float]] = []
    are_whole, names, width = True, 0, 0
    padded = ["", ""]  # the first line in which a number of an odd column, or of an even one, is written as 05 is
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, skipinitialspace=True, strict=True)
        for index, fields in enumerate(filter(None, reader)):
            if index == 0 and _is_header(fields):
                names = len(fields)
                continue
            place = f"{path}:{reader.line_num}"
            wrong = next(itertools.filterfalse(_is_number, fields), None)
            if wrong is not None:
                raise UserError(f"{place}: expected numbers, got {wrong!r}{DECIMAL_POINTS if ';' in wrong else ''}")
            width = width or len(fields)
            if len(fields) != width:
                raise UserError(f"{place}: expected {width} numbers, got {len(fields)}")
            if width == 2 * names:
                raise UserError(
                    f"{place}: expected {names} numbers, as the header has names, got {width}{DECIMAL_POINTS}"
                )
            rows.append(list(map(float, fields)))
            are_whole = are_whole and all(map(_is_whole, fields))
            for side in (0, 1):
                if not padded[side] and any(map(_is_padded, fields[side::2])):
                    padded[side] = f"{place}: expected numbers, got {','.join(fields)!r}"
    if are_whole and width % 2 == 0 and padded[1] and not padded[0]:
        raise UserError(f"{padded[1]}{DECIMAL_POINTS}")
    array = np.array(rows, ndmin=2)
    return array.astype(np.int64) if are_whole and (np.abs(array) < 2**53).all() else array


def _is_header(fields: Sequence[str]) -> bool:
    names = [field for field in fields if field.strip().lower() not in MISSING]
    return bool(names) and not any(map(_is_number, fields))


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return "_" not in field  # 1_000 is a number to Python


def _is_whole(field: str) -> bool:
    return field.strip().lstrip("+-").isdecimal()


def _is_padded(field: str) -> bool:
    """Whether a whole number begins with a zero more than it needs, as the digits after a decimal comma may."""
    return len(field.strip()) > 1 and field.strip().startswith("0")


def _read_png(path: str) -> np.ndarray:
    """Brightness, uint8 [height, width], turned and mirrored as the file says."""
    from PIL import Image, ImageOps

    with Image.open(path) as image:
        found = image.mode
        if "16" in str(image.tile[0][3]):  # Pillow would read their upper halves alone
            found += " of 16 bits"
        if found in IMAGE_MODES and image.convert("RGBA").getextrema()[-1][0] < 255:
            found += " with transparency"
        if found not in IMAGE_MODES:
            raise UserError(
                f"{path}: expected an opaque picture of 8 bits ({', '.join(IMAGE_MODES)}), got mode {found}"
            )
        return np.asarray(ImageOps.exif_transpose(image).convert("L"))


READERS = {".txt": _read_text, ".npy": _read_npy, ".csv": _read_csv, ".png": _read_png}
WORD_FILES = (".txt", ".npy")
NUMBER_FILES = (".npy", ".csv", ".png")
DECIMAL_POINTS = " (decimals need a point, as a comma separates columns)"
MISSING = ("", "na", "n/a", "nan", "null", "none", "-", "?")  # in lower case; these are not names of columns
IMAGE_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA")  # Pillow's modes; it would clip the values of others
