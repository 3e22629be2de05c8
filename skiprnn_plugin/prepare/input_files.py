"""Reads a user's own files, each of which holds a text, or an array of one or several sequences."""

import itertools
from pathlib import Path
from typing import Iterator, List, NamedTuple, Optional, Sequence, Set, TextIO

import numpy as np

from ..arguments import UserError
from ..reading import first_sentence
from .record import TableColumns
from .tables import Decimals, find_delimiter, open_file, read_table

MISSING = ("", "na", "n/a", "nan", "null", "none", "-", "?")  # in lower case; these are not names of columns
UNKNOWN = TableColumns()
SEQUENCE = "sequence"  # the usual name of the column of a table that says which sequence a step belongs to
DECIMAL_POINTS = " (decimals need a point, as a comma separates columns)"
IMAGE_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA")  # Pillow's modes; it would clip the values of others


def read_lines(stream: TextIO) -> Iterator[str]:
    """The texts of a stream, one on each line; empty lines are skipped. Raises UserError if there is none."""
    is_empty = True
    try:
        for line in filter(str.strip, stream):
            is_empty = False
            yield line
    except UnicodeDecodeError as error:
        raise UserError(f"standard input: can't be read ({first_sentence(error)})") from error
    if is_empty:
        raise UserError("standard input: expected a text on each line, it is empty")


def read_text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8-sig")


def read_npy(path: str) -> np.ndarray:
    # A mapped file's header is held against its size, before there is memory for what it promises. Copy-on-write, as
    # torch warns of arrays that can't be written.
    return np.lib.format.open_memmap(path, mode="c")


class _Line(NamedTuple):
    """A line of a file: its number, where it is, for messages, and its fields."""

    number: int
    place: str
    fields: List[str]


def read_csv(path: str, columns: TableColumns = UNKNOWN) -> np.ndarray:
    """[T, D], a line for each step; integers if all are written so, as images of integers have another range.

    Columns are separated as in the tables that models are trained on, by commas, semicolons or tabs; where these are
    not commas, numbers may have decimal commas. Where they are commas, numbers with decimal commas are refused if they
    can be told from whole numbers.

    The first line may be a header: one without any number, or with all of ``columns.features``; or, above several
    columns of numbers that all have fractions, the line 0, 1, ..., D - 1, as pandas writes it.

    Args:
        path: the file, ``.csv`` or ``.tsv``.
        columns: of these the features are returned where the file has a header; if they have no names, all columns in
            the file's order.

    Raises:
        UserError: the file holds something else, or lacks one of the features, or has a first line of numbers that may
            be names as well, or several sequences, as the table does that a model is trained on.
    """
    delimiter = find_delimiter(path)
    header, lines = _read_header(path, columns.features, delimiter), _read_lines(path, delimiter)
    names: Sequence[str] = ()
    if header:
        names, lines = columns.features or header, _read_below(header, lines, columns, delimiter)
    rows: List[List[float]] = []
    are_whole, width, decimals = True, 0, Decimals(delimiter)
    padded = ["", ""]  # the first line in which a number of an odd column, or of an even one, is written as 05 is
    for number, place, fields in lines:
        numbers: List[float] = []
        try:
            for column, field in enumerate(fields):
                numbers.append(decimals.read(field, number, column))
        except ValueError as error:
            column = len(numbers)
            name = f"column {names[column]!r}: " if column < len(names) else ""
            hint = DECIMAL_POINTS if delimiter == "," and any(";" in field for field in fields) else ""
            raise UserError(f"{place}: {name}{error}{hint}") from error
        width = width or len(fields)
        if len(fields) != width:
            raise UserError(f"{place}: expected {width} numbers, got {len(fields)}")
        rows.append(numbers)
        are_whole = are_whole and all(map(_is_whole, fields))
        for side in (0, 1):
            if not padded[side] and any(map(_is_padded, fields[side::2])):
                padded[side] = f"{place}: expected numbers, got {','.join(fields)!r}"
    if not rows:
        raise UserError(f"{path}: expected a line for each step, got none")
    try:
        decimals.check()
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None
    if delimiter == "," and are_whole and width % 2 == 0 and padded[1] and not padded[0]:
        raise UserError(f"{padded[1]}{DECIMAL_POINTS}")
    array = np.array(rows, ndmin=2)
    return array.astype(np.int64) if are_whole and (np.abs(array) < 2**53).all() else array


def _read_lines(path: str, delimiter: str) -> Iterator[_Line]:
    """The lines of a file but the empty ones."""
    with open_file(path) as file:
        reader = read_table(file, delimiter)
        for fields in filter(None, reader):
            yield _Line(reader.line_num, f"{path}:{reader.line_num}", fields)


def _read_below(header: List[str], lines: Iterator[_Line], columns: TableColumns, delimiter: str) -> Iterator[_Line]:
    """The lines below the header, the first one, each with the features, or with all columns if these have no names.
    Raises UserError for a line of another length, and if the header lacks a name, or if there are several sequences."""
    names = columns.features
    place = next(lines).place
    places = None if names is None else _find_columns(place, header, names)
    sequence = columns.sequence or SEQUENCE
    has_sequences = names is not None and sequence in header and sequence not in names
    sequences: Set[str] = set()  # the names of those that the steps belong to
    for line in lines:
        place, fields = line.place, line.fields
        has_commas = delimiter == "," and len(fields) == 2 * len(header)  # as decimal points
        if has_commas or (names is not None and len(fields) != len(header)):
            raise UserError(
                f"{place}: expected {len(header)} numbers, as the header has names, got {len(fields)}"
                f"{DECIMAL_POINTS if has_commas else ''}"
            )
        if has_sequences:
            sequences.add(fields[header.index(sequence)].strip())
        if len(sequences) > 1:
            first, second = sorted(sequences)
            raise UserError(
                f"{place}: expected the steps of one sequence, got those of {first!r} and {second!r} in column "
                f"{sequence!r}; each needs a file of its own"
            )
        yield line if places is None else line._replace(fields=[fields[column] for column in places])


def _read_header(path: str, feature_names: Optional[Sequence[str]], delimiter: str) -> List[str]:
    """The names in the first line; empty if it holds none. Raises UserError if it may be either names or numbers."""
    known = list(feature_names or ())
    with open_file(path) as file:
        lines = filter(None, read_table(file, delimiter))
        names = [field.strip() for field in next(lines, [])]
        if names and names[0] not in known:
            names[0] = names[0].removeprefix("#").strip()  # numpy.savetxt puts it there
        are_numbers = [_is_number(name if delimiter == "," else name.replace(",", ".")) for name in names]
        if not all(are_numbers):
            has_names = any(name.lower() not in MISSING for name in names) and not any(are_numbers)
            return names if has_names or (known and set(known) <= set(names)) else []
        is_known = sorted(names) == sorted(known)
        is_numbered = len(names) > 1 and names == list(map(str, range(len(names))))  # one 0 is a number
        second = next(lines, None)
        if second is None or not (is_known or is_numbered):
            return []
        has_whole = any(map(_is_whole, itertools.chain(second, *lines)))
    if len(names) > 1 and not has_whole:
        return names
    if has_whole and not is_known:
        return []
    raise UserError(
        f"{path}: expected names or numbers in the first line, got {','.join(names)}, which may be either; remove the "
        "line if it holds names, or write its numbers with decimal points"
    )


def _find_columns(place: str, header: Sequence[str], feature_names: Sequence[str]) -> List[int]:
    """Where the header has these names. Raises UserError if it lacks one, or has one twice."""
    for name in feature_names:
        if header.count(name) != 1:
            found = f"{header.count(name)} of them" if name in header else f"columns {', '.join(header)}"
            raise UserError(f"{place}: expected a column {name!r}, as the training data had, got {found}")
    return [header.index(name) for name in feature_names]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # 1_000 is a number to Python


def _is_whole(field: str) -> bool:
    return field.strip().lstrip("+-").isdecimal()


def _is_padded(field: str) -> bool:
    """Whether a whole number begins with a zero more than it needs, as the digits after a decimal comma may."""
    return len(field.strip()) > 1 and field.strip().startswith("0")


def read_png(path: str) -> np.ndarray:
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


# By the kind of a task's inputs (see skiprnn_plugin.tasks.presentation.Inputs): a function for each suffix
READERS = {
    "texts": {".txt": read_text},
    "token_ids": {".npy": read_npy},
    "numbers": {".npy": read_npy, ".csv": read_csv, ".tsv": read_csv, ".png": read_png},
}
