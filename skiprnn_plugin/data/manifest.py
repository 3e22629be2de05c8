"""Reads ``manifest.tsv`` or ``manifest.csv``, the list of a folder's sequences, and ``classes.txt``, the classes of
their labels."""

import csv
import math
import re
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..reading import describe_encoding_error

MANIFEST, MANIFEST_CSV = "manifest.tsv", "manifest.csv"
CLASSES = "classes.txt"
REQUIRED = ("sequence", "split")

# Control characters, others that end a line or mark a file's beginning, and halves of characters
_UNWRITABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")


class Annotation(NamedTuple):
    """A class and when it is present, in seconds from the sequence's start, both ends included."""

    label: str
    start: float
    end: float


class Item(NamedTuple):
    """A line of the manifest.

    Attributes:
        name: the sequence's name; ``NAME.npy`` is its file if each sequence has a separate file.
        steps: the number of steps, T; 0 if the column is missing.
        split: train, valid, test or any other.
        label: the sequence's class; None if the column is missing.
        annotations: the annotations in the manifest's order, perhaps empty; None if the column is missing.
        duration: seconds; None if the column is missing.
        line: the line's number in the file, from 1.
        fields: the text of the line, by column.
    """

    name: str
    steps: int
    split: str
    label: Optional[str]
    annotations: Optional[Tuple[Annotation, ...]]
    duration: Optional[float]
    line: int
    fields: Dict[str, str]


def find_manifest(folder: Path) -> Path:
    """The folder's manifest: ``manifest.csv`` if only that exists, else ``manifest.tsv``, whether it exists or not.

    Raises ValueError if both exist.
    """
    tabs, commas = folder / MANIFEST, folder / MANIFEST_CSV
    if tabs.is_file() and commas.is_file():
        raise ValueError(f"{folder}: expected {MANIFEST} or {MANIFEST_CSV}, got both")
    return commas if commas.is_file() else tabs


def read_manifest(folder: Path, columns: Sequence[str], has_steps: bool = True) -> List[Item]:
    """Read all sequences, in the file's order.

    The first line names the columns, in any order: ``sequence``, ``steps``, ``split``; then ``label``, or
    ``annotations`` (see :func:`parse_annotations`) and ``duration``. Other columns are ignored. Tabs separate columns;
    in ``manifest.csv`` commas do, or semicolons if the first line has more of these.

    Args:
        folder: the folder that holds the manifest.
        columns: the columns that are required besides ``sequence``, ``steps`` and ``split``.
        has_steps: whether ``steps`` is required. It is not where a sequence's file tells its steps, as those of arrays
            and videos do.

    Raises:
        ValueError: the manifest can't be read, lacks a column, or has a line that is wrong.
    """
    path = find_manifest(folder)
    lines = read_lines(path)
    first = next(lines, (1, ""))[1]
    if not first:
        raise ValueError(f"{path}:1: expected the names of the columns, got an empty file")
    delimiter = "\t" if path.name == MANIFEST else max(",;", key=first.count)
    try:
        header = _split(first, delimiter)
    except ValueError as error:
        raise ValueError(f"{path}:1: {error}") from error
    for column in (*REQUIRED, *(["steps"] if has_steps else []), *columns):
        if header.count(column) != 1:
            found = "two of them" if column in header else f"columns {', '.join(header)}"
            raise ValueError(f"{path}:1: expected a column {column!r}, got {found}")
    items: Dict[str, Item] = {}
    for number, line in lines:
        try:
            item = _parse(header, _split(line, delimiter), number)
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}") from error
        other = items.setdefault(item.name, item)
        if other is not item:
            raise ValueError(f"{path}:{number}: sequence {item.name!r} is in line {other.line} too")
    if not items:
        raise ValueError(f"{path}: expected a line for each sequence, got none")
    return list(items.values())


def read_lines(path: Path) -> Iterator[Tuple[int, str]]:
    """The lines of a text file that are not empty, with their numbers from 1. Raises ValueError if it can't be read."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line.rstrip("\n")
    except OSError as error:
        raise ValueError(f"{path}: can't be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: {describe_encoding_error(error)}") from error


def _parse(header: Sequence[str], values: Sequence[str], number: int) -> Item:
    if len(values) != len(header):
        raise ValueError(f"expected {len(header)} columns, got {len(values)}")
    fields = dict(zip(header, values))
    check_name(fields["sequence"])
    for column in ("split", "label"):
        if column in fields:
            clean_value(column, fields[column])
    return Item(
        fields["sequence"],
        _steps(fields["steps"]) if "steps" in fields else 0,
        fields["split"],
        fields.get("label"),
        parse_annotations(fields["annotations"]) if "annotations" in fields else None,
        _duration(fields["duration"]) if "duration" in fields else None,
        number,
        fields,
    )


def _split(line: str, delimiter: str) -> List[str]:
    """The values of a line; only where no tabs separate them may they stand between quotation marks.

    Raises ValueError if Python's csv module does not read the line, such as one with a very long value.
    """
    if delimiter == "\t":
        values = line.split(delimiter)
    else:
        try:
            values = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
        except csv.Error as error:
            raise ValueError(
                f"can't be read ({error}); {MANIFEST}, with tabs between columns, has no such limit"
            ) from error
    return [value.strip() for value in values]


def check_name(name: str) -> None:
    """Raise ValueError if a sequence's name can't be a file's name, or would lead out of the folder as a path."""
    parts = name.split("/")
    if not name.isprintable() or "\\" in name or any(part.strip() in ("", ".", "..") for part in parts):
        raise ValueError(f"expected a sequence's name, perhaps within folders (a/b), got {name!r}")


def clean_value(what: str, text: str) -> str:
    """A label, or another value of a column, as it is read from the manifest: without the spaces around it.

    Raises ValueError, which names ``what``, if it is empty or has a character that a line of the manifest can't hold.
    """
    value = text.strip()
    if not value or _UNWRITABLE.search(value):
        raise ValueError(f"expected a {what}{' without tabs and line breaks' if value else ''}, got {text!r}")
    return value


def write_line(values: Sequence[str]) -> str:
    """A line of ``manifest.tsv``; characters that it can't hold, such as tabs, become spaces."""
    return "\t".join(_UNWRITABLE.sub(" ", value) for value in values) + "\n"


def _steps(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 2**40):
        raise ValueError(f"steps: expected a whole number of at least 1, got {text!r}")
    return int(text)


def _duration(text: str) -> float:
    value = _number(text)
    if value is None or value <= 0:
        raise ValueError(f"duration: expected seconds, more than 0, got {text!r}")
    return value


def _number(text: str) -> Optional[float]:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def parse_annotations(text: str) -> Tuple[Annotation, ...]:
    """Parse annotations as Charades writes them: ``CLASS START END;CLASS START END``, in seconds, or an empty text.

    As in Charades, an annotation may start after it ends, and may end after the sequence does.
    """
    annotations = []
    for part in filter(str.strip, text.split(";")):
        words = part.split()
        numbers = [_number(word) for word in words[1:]]
        if len(words) != 3 or None in numbers:
            raise ValueError(f"annotations: expected a class, start and end in seconds, got {part!r}")
        annotations.append(Annotation(words[0], *numbers))
    return tuple(annotations)


def read_classes(folder: Path) -> List[str]:
    """The lines of ``classes.txt``, without the spaces around them.

    Raises ValueError if a class is listed twice or can't be a label, or if there is none.
    """
    path = folder / CLASSES
    classes: Dict[str, int] = {}
    for number, line in read_lines(path):
        try:
            name = clean_value("class", line)
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}") from error
        if name in classes:
            raise ValueError(f"{path}:{number}: class {name!r} is in line {classes[name]} too")
        classes[name] = number
    if not classes:
        raise ValueError(f"{path}: expected a class on each line, got none")
    return list(classes)


def find_labels(items: Sequence[Item], split: str) -> List[str]:
    """The labels of a split's sequences and of their annotations, sorted."""
    return sorted({label for item in items if item.split == split for label in _labels(item)})


def check_labels(folder: Path, items: Sequence[Item], classes: Sequence[str]) -> None:
    """Raise ValueError if the label of a sequence or of an annotation is not one of the classes."""
    known = set(classes)
    for item in items:
        for label in _labels(item):
            if label not in known:
                names = ", ".join(classes[:10]) + (", ..." if len(classes) > 10 else "")
                raise ValueError(
                    f"{find_manifest(folder)}:{item.line}: expected a label of the {len(classes)} classes ({names}), "
                    f"got {label!r}"
                )


def _labels(item: Item) -> List[str]:
    labels = [] if item.label is None else [item.label]
    return labels + [annotation.label for annotation in item.annotations or ()]
