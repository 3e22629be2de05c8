"""Reads sequences and their labels from one ``.csv`` or ``.tsv`` file, a line for each step."""

import csv
import re
import sys
from array import array
from decimal import Decimal
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from ..data.manifest import check_name, clean_value
from ..data.targets import CURE, RENAME, are_targets, find_missing, find_nan
from ..reading import describe_encoding_error, show_progress
from .splits import Division, check_classes, errors_named
from .tables import Decimals, find_delimiter, open_file, read_table
from .write_features import Source

# Numbers as tables have them, not 1e5 or 1_0, which may be names. Whole ones may have a fraction of zeros, but a name
# such as 1.10 may be the tenth recording of the first subject.
NUMBER, WHOLE = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?"), re.compile(r"[+-]?[0-9]+(\.0*)?")


class Columns(NamedTuple):
    """The columns of a file that are not features.

    Attributes:
        sequence: which sequence a step belongs to.
        label: the sequence's class.
        subject: whom it is of; read if it exists.
        split: train, valid or test; read if it exists.
        ignored: columns to leave out, such as a time; an empty text leaves out those without a name.
    """

    sequence: str = "sequence"
    label: str = "label"
    subject: str = "subject"
    split: str = "split"
    ignored: Sequence[str] = ()


class Recording:
    """A sequence while it is read: what its lines agree on, the first of its lines, and the numbers of its steps."""

    def __init__(self, row: Dict[str, str], line: int):
        self.row, self.line = row, line
        self.steps = array("d")


class _Names:
    """The names in a column, of which no two may be the same number, as ``1`` and ``1.0`` are in tables that were put
    together from several; ``pattern`` says which names are numbers."""

    def __init__(self, pattern: re.Pattern):
        self.pattern = pattern
        self.known: Set[str] = set()
        self.numbers: Dict[Decimal, str] = {}

    def add(self, what: str, name: str) -> None:
        if name in self.known:
            return
        self.known.add(name)
        first = self.numbers.setdefault(Decimal(name), name) if self.pattern.fullmatch(name) else name
        if first != name:
            raise ValueError(f"expected each {what} written in one way, got {name!r} and {first!r}")


def read_csv(path: Path, columns: Columns, divide: Division, regression: Optional[bool] = None) -> Tuple[Source, bool]:
    """Sequences from a ``.csv`` or ``.tsv`` file with a header and a line for each step.

    The columns of the sequence and the label, and perhaps of the subject and the split, say what a step belongs to; all
    others hold numbers, one feature each. Columns are separated by commas, semicolons or tabs, in a ``.tsv`` file by
    tabs; with semicolons or tabs, all numbers of the file may have decimal commas. The steps of a sequence are in the
    file's order. If a column of splits divides the sequences of a subject, standard error says so.

    Args:
        path: the file.
        columns: the names of the columns.
        divide: divides the subjects, or the sequences if there are none, unless the file has a column of splits.
        regression: whether the labels are numbers to predict; None: if all are numbers and any has a fraction.

    Returns:
        the sequences, and whether ``divide`` divided them.

    Raises:
        ValueError: the file can't be read, lacks a column, or has a line that is wrong; or a split gets no sequence, or
            the split train lacks a class; or ``divide`` has options of the user although a column decides.
    """
    try:
        delimiter = find_delimiter(path)
        with open_file(path) as file:
            recordings, features = _read(path, read_table(file, delimiter), Decimals(delimiter), columns)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: {describe_encoding_error(error)}") from error
    except (OSError, csv.Error) as error:
        raise ValueError(f"{path}: can't be read as a {path.suffix} file ({error})") from error
    targets = _find_targets(path, recordings, regression, delimiter)
    if targets is None:
        _check_labels(path, recordings)
    else:
        for recording, target in zip(recordings, targets):
            recording.row["label"] = target
    rows = [recording.row for recording in recordings]
    labels, is_divided = [row["label"] if targets is None else "" for row in rows], "split" not in rows[0]
    if divide.given and not is_divided:
        raise ValueError(
            f"{divide.given[0]}: expected no column {columns.split!r} in {path}, as it decides what is held out; "
            f"--ignore-columns {columns.split} leaves it out"
        )
    with errors_named(path, divide):
        if is_divided:
            splits = divide(labels, [row["subject"] for row in rows] if "subject" in rows[0] else None)
            rows = [{**row, "split": split} for row, split in zip(rows, splits)]
        else:
            check_classes(labels, [row["split"] for row in rows])
            _warn_of_divided_subjects(path, rows)
    arrays = [np.frombuffer(recording.steps).reshape(-1, len(features)) for recording in recordings]
    classes = sorted(set(labels)) if targets is None else None
    return Source(path, rows, len(features), classes, arrays.__getitem__, features=features), is_divided


def _find_targets(
    path: Path, recordings: Sequence[Recording], regression: Optional[bool], delimiter: str
) -> Optional[List[str]]:
    """The labels as numbers to predict, with decimal points; None if they are classes. A comma in a label is a decimal
    comma, except in files that separate columns by commas.

    Raises ValueError if a label is not a number, and ``regression`` is True or at least half of the labels have a
    fraction; or if decimal commas and points are mixed.
    """
    if regression is False:
        return None
    given = [recording.row["label"] for recording in recordings]
    labels = [label.replace(",", ".") if delimiter != "," else label for label in given]
    missing = find_missing(labels, regression)
    if missing is not None:
        line, label = recordings[missing].line, given[missing]
        cure = "" if regression else CURE
        raise ValueError(f"{path}:{line}: label: expected a number to predict, got {label!r}{cure}")
    if not (regression or are_targets(labels)):
        return None
    if any("." in label for label in given) and labels != given:
        raise ValueError(f"{path}: label: expected decimal points or decimal commas, got both")
    return labels


def _check_labels(path: Path, recordings: Sequence[Recording]) -> None:
    """Raise ValueError if a class is missing or is written in two ways."""
    missing = find_nan(recording.row["label"] for recording in recordings)
    if missing is not None:
        line, label = recordings[missing].line, recordings[missing].row["label"]
        raise ValueError(f"{path}:{line}: label: expected a class, got {label!r}{RENAME}")
    names = _Names(NUMBER)
    for recording in recordings:
        try:
            names.add("label", recording.row["label"])
        except ValueError as error:
            raise ValueError(f"{path}:{recording.line}: {error}") from error


def _warn_of_divided_subjects(path: Path, rows: Sequence[Dict[str, str]]) -> None:
    """Print a warning if there are subjects with sequences in several splits."""
    splits: Dict[str, Dict[str, None]] = {}
    for row in rows:
        if "subject" in row:
            splits.setdefault(row["subject"], {})[row["split"]] = None
    divided = [subject for subject, found in splits.items() if len(found) > 1]
    if divided:
        print(
            f"{path}: warning: {len(divided):,} of {len(splits):,} subjects are in several splits, such as "
            f"{divided[0]!r} in {' and '.join(splits[divided[0]])}",
            file=sys.stderr,
        )


def _read(path: Path, reader, decimals: Decimals, columns: Columns):
    header = [name.strip() for name in next(reader, [])]
    if not header:
        raise ValueError(f"{path}:1: expected the names of the columns, got an empty line")
    places = _find_columns(path, header, columns)
    features = _find_features(path, header, places, columns.ignored)
    found, previous, recording = {}, None, None
    names = {what: _Names(WHOLE) for what in places if what != "label"}  # which may be a number to predict
    for fields in show_progress(filter(None, reader), str(path), unit=" lines"):
        number = reader.line_num
        try:
            if len(fields) != len(header):
                raise ValueError(f"expected {len(header)} columns, as the header has, got {len(fields)}")
            values = [fields[place] for place in places.values()]
            if values != previous:  # mostly the lines of a sequence follow one another
                recording, previous = _find_recording(found, names, dict(zip(places, values)), number), values
            recording.steps.extend([_read_number(decimals, header, fields, place, number) for place in features])
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}") from error
    if not found:
        raise ValueError(f"{path}: expected a line for each step, got none")
    try:
        decimals.check()
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return list(found.values()), [header[place] for place in features]


def _find_recording(
    found: Dict[str, Recording], names: Dict[str, _Names], values: Dict[str, str], line: int
) -> Recording:
    """The recording that a line belongs to, by what its columns but the features hold; a new one is added to ``found``.

    Raises ValueError for values that the manifest can't hold, or that are unlike those of the lines before.
    """
    row = {name: clean_value(name, value) for name, value in values.items()}
    check_name(row["sequence"])
    recording = found.get(row["sequence"])
    if recording is None:
        for what, known in names.items():
            known.add(what, row[what])
        recording = found[row["sequence"]] = Recording(row, line)
    for name, value in row.items():
        if recording.row[name] != value:
            raise ValueError(
                f"sequence {row['sequence']!r}: expected {name} {recording.row[name]!r}, as in line {recording.line}, "
                f"got {value!r}"
            )
    return recording


def _find_columns(path: Path, header: Sequence[str], columns: Columns) -> Dict[str, int]:
    """The places of the columns that are not features: sequence and label, and subject and split if they exist."""
    cures = {
        columns.sequence: "; --sequence-column names another",
        columns.label: "; --label-column names another",
    }
    for name in (columns.sequence, columns.label, *columns.ignored):
        if name not in header:
            found = ", ".join(header)
            raise ValueError(f"{path}:1: expected a column {name!r}, got columns {found}{cures.get(name, '')}")
    for name in (columns.sequence, columns.label):
        if name in columns.ignored:
            raise ValueError(f"ignore_columns: expected columns besides the sequence's and the label's, got {name!r}")
    known = {"sequence": columns.sequence, "label": columns.label, "subject": columns.subject, "split": columns.split}
    return {what: header.index(name) for what, name in known.items() if name in header and name not in columns.ignored}


def _find_features(path: Path, header: Sequence[str], places: Dict[str, int], ignored: Sequence[str]) -> List[int]:
    """The places of the features. Raises ValueError if there are none, or if one has no name or a repeated one."""
    for place, name in enumerate(header):
        if name in ignored:
            continue
        if not name:
            raise ValueError(
                f"{path}:1: expected a name for each column, got none for column {place + 1} (the numbers of a table's "
                'rows, perhaps); --ignore-columns "" leaves it out'
            )
        if header.count(name) > 1:
            raise ValueError(
                f"{path}:1: expected a column {name!r}, got {header.count(name)} of them; --ignore-columns {name} "
                "leaves them out"
            )
    features = [place for place, name in enumerate(header) if place not in places.values() and name not in ignored]
    if not features:
        raise ValueError(f"{path}:1: expected columns of features, got only {', '.join(header)}")
    return features


def _read_number(decimals: Decimals, header: Sequence[str], fields: Sequence[str], place: int, line: int) -> float:
    try:
        return decimals.read(fields[place], line, place)
    except ValueError as error:
        raise ValueError(f"column {header[place]!r}: {error}") from None
