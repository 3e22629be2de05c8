"""Reads sequences and their labels from one ``.npz`` file."""

import re
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from ..data.manifest import clean_value
from ..data.targets import RENAME, find_nan, write_target
from ..reading import first_sentence
from .splits import Division, errors_named
from .write_features import Source

LIST = re.compile(r"arr_(\d+)$")  # the names that numpy.savez gives to arrays without names
VALUES, LENGTHS, LABELS, SUBJECT, LABEL_NAMES = "values", "lengths", "labels", "subject", "label_names"
TARGETS = "targets"  # labels that are numbers to predict
PICKLED = "holds pickled objects, which are never loaded; "
ARRAYS_HINT = "a list of arrays goes in as np.savez(FILE, *list, labels=...)"
EXACT = 2**53  # below it, float64 holds every whole number
NAMES_HINT = "names go in as {}=numpy.array(names, dtype=str)"


class Sequences(NamedTuple):
    """The sequences of a file.

    Attributes:
        lengths: the steps of each, integers [N].
        width: the number of features, D.
        load: a function from the number of a sequence to its array, [T, D].
    """

    lengths: np.ndarray
    width: int
    load: Callable[[int], np.ndarray]


def read_npz(path: Path, divide: Division, regression: Optional[bool] = None) -> Source:
    """Sequences from an ``.npz`` file, divided into splits.

    The file holds the sequences in one of three ways:

    - ``values`` [sum of steps, D], one sequence after the other, and ``lengths``, the steps of each;
    - ``values`` [N, T, D], or [N, T] for one feature, perhaps with ``lengths``, where the end of shorter sequences is
      padding, which is left out;
    - a list of arrays, each [T, D], or [T] for one feature, as ``np.savez(FILE, *arrays, labels=labels)`` writes it;

    and, with an element for each sequence, ``labels`` and perhaps ``subject``, whole numbers or names. If the labels
    are numbers from 0, it may also hold ``label_names``. Spaces around names do not count. If the labels are numbers to
    predict, they are [N] or [N, outputs].

    Args:
        path: the file.
        divide: divides the subjects, or the sequences if the file has no ``subject``.
        regression: whether the labels are numbers to predict; None: if any of them has a fraction.

    Raises:
        ValueError: the file is not what it should be, a named subject does not exist, a split gets no sequence, or the
            split train lacks a class.
    """
    with _open(path) as file:
        arrays = _read_arrays(path, file, regression)
        sequences = _find_sequences(path, file, arrays)
    labels, classes = _name_labels(path, arrays)
    subjects = names = None
    if SUBJECT in arrays:
        subjects = _names(path, SUBJECT, arrays[SUBJECT])
        names = list(dict.fromkeys(subjects[place] for place in np.argsort(arrays[SUBJECT], kind="stable")))
    with errors_named(path, divide):
        splits = divide(labels if classes is not None else [""] * len(labels), subjects, names)
    rows = [
        {"sequence": str(number), "split": split, "label": label}
        for number, (split, label) in enumerate(zip(splits, labels))
    ]
    if subjects is not None:
        rows = [{**row, "subject": subject} for row, subject in zip(rows, subjects)]
    return Source(path, rows, sequences.width, classes, sequences.load)


def _open(path: Path):
    try:
        file = np.load(path, allow_pickle=False)
    except Exception as error:  # a file can be broken in any way
        raise ValueError(f"{path}: can't be read as a .npz file ({first_sentence(error)})") from error
    if not isinstance(file, np.lib.npyio.NpzFile):
        raise ValueError(f"{path}: can't be read as a .npz file (it holds a single array)")
    return file


def _read(path: Path, file, name: str) -> np.ndarray:
    """An array of the file. Raises ValueError if it is damaged or holds Python objects."""
    try:
        return file[name]
    except Exception as error:  # a file can be broken in any way
        reason = f"can't be read ({first_sentence(error)})"
        if "pickle" in str(error):
            reason = PICKLED + (NAMES_HINT.format(name) if name in (LABELS, SUBJECT, LABEL_NAMES) else ARRAYS_HINT)
        raise ValueError(f"{path}: {name}: {reason}") from error


def _read_arrays(path: Path, file, regression: Optional[bool]) -> Dict[str, np.ndarray]:
    """All arrays but the values; numbers to predict are under ``TARGETS`` too, [N, outputs]. Raises ValueError if one
    is missing or is not what it should be."""
    listed = any(LIST.match(name) for name in file.files)
    if VALUES not in file.files and not listed:
        raise ValueError(f"{path}: expected an array {VALUES}, or a list of arrays (np.savez), got {_list(file.files)}")
    if LABELS not in file.files:
        raise ValueError(f"{path}: expected an array {LABELS}, got {_list(file.files)}")
    found = {name: _read(path, file, name) for name in (LENGTHS, LABELS, SUBJECT, LABEL_NAMES) if name in file.files}
    if regression or regression is None and LABEL_NAMES not in found and _have_fractions(found[LABELS]):
        found[TARGETS] = _as_targets(path, found[LABELS])
    for name, kinds in ((LENGTHS, "iu"), (LABELS, "iuU"), (SUBJECT, "iuU"), (LABEL_NAMES, "U")):
        if name not in found or name == LABELS and TARGETS in found:
            continue
        if name in (LABELS, SUBJECT):
            found[name] = _as_whole(found[name])
        array = found[name]
        if array.ndim == 1:
            _check_present(path, name, array)
        if array.ndim != 1 or len(array) == 0 or array.dtype.kind not in kinds:
            what = "whole numbers" if kinds == "iu" else "names" if kinds == "U" else "whole numbers or names"
            is_several = name == LABELS and array.ndim == 2 and array.dtype.kind in "iuf"
            cure = "; --regression predicts several numbers" if is_several else _cure_of_large(name, array)
            raise ValueError(f"{path}: {name}: expected {what} in one row, got {array.dtype} {array.shape}{cure}")
    if LENGTHS in found and found[LENGTHS].min() < 1:
        raise ValueError(f"{path}: {LENGTHS}: expected at least 1, got {found[LENGTHS].min()}")
    return found


def _check_present(path: Path, name: str, array: np.ndarray) -> None:
    """Raise ValueError if an element is NaN, or the text "nan" that numpy makes of it."""
    missing = find_nan(array.astype(str).tolist()) if array.dtype.kind in "fU" else None
    if missing is not None:
        got = f"{array[missing]}{RENAME if name in (LABELS, LABEL_NAMES) else ', a missing value'}"
        raise ValueError(f"{path}: {name}[{missing}]: expected a whole number or a name, got {got}")


def _cure_of_large(name: str, array: np.ndarray) -> str:
    """What to do about floats that are too large to tell neighbouring whole numbers apart; empty for others."""
    if array.ndim != 1 or array.dtype.kind != "f" or not (np.abs(array) >= EXACT).any():
        return ""
    cure = f"; from {EXACT:g} on floats can't tell whole numbers apart, so give integers or names"
    return f"{cure}, or --regression to predict numbers" if name == LABELS else cure


def _as_whole(array: np.ndarray) -> np.ndarray:
    """Integers of an array of bool, or of floats that are whole; any other array as it is."""
    if array.dtype.kind == "f" and (np.abs(array) < EXACT).all() and (array == np.floor(array)).all():
        return array.astype(np.int64)
    return array.astype(np.int64) if array.dtype.kind == "b" else array


def _have_fractions(labels: np.ndarray) -> bool:
    return labels.dtype.kind == "f" and bool((np.isfinite(labels) & (labels != np.floor(labels))).any())


def _as_targets(path: Path, labels: np.ndarray) -> np.ndarray:
    """Numbers to predict, float64 [N, outputs]. Raises ValueError if the labels are something else."""
    is_wrong = labels.dtype.kind not in "iuf" or labels.ndim not in (1, 2) or labels.size == 0
    if is_wrong or not np.isfinite(labels).all():
        raise ValueError(
            f"{path}: {LABELS}: expected finite numbers to predict, [N] or [N, outputs], got {labels.dtype} "
            f"{labels.shape}{'' if is_wrong else ' with NaN or infinity'}"
        )
    return labels.reshape(len(labels), -1).astype(np.float64)


def _list(names: List[str]) -> str:
    return ", ".join(names) or "none"


def _find_sequences(path: Path, file, arrays: Dict[str, np.ndarray]) -> Sequences:
    """The sequences. Raises ValueError if they are not what they should be, or do not have a label each."""
    if VALUES in file.files:
        sequences = _split_values(path, _unpack(path), arrays.get(LENGTHS), len(arrays[LABELS]))
    else:
        sequences = _read_list(path, file)
    for name in (LABELS, SUBJECT):
        if name in arrays and len(arrays[name]) != len(sequences.lengths):
            raise ValueError(
                f"{path}: {name}: expected one for each of the {len(sequences.lengths)} sequences, "
                f"got {len(arrays[name])}"
            )
    return sequences


def _split_values(path: Path, values: np.ndarray, lengths: Any, num_labels: int) -> Sequences:
    if values.ndim == 2 and len(values) == num_labels and (lengths is None or lengths.sum() != num_labels):
        values = values[:, :, None]  # one feature
    if values.ndim == 2:
        if lengths is None:
            raise ValueError(f"{path}: expected an array {LENGTHS} beside {VALUES} [steps, features], got none")
        if len(values) != lengths.sum():
            raise ValueError(
                f"{path}: expected as many {VALUES} as {LENGTHS} add up to, {lengths.sum():,}, got {len(values):,}"
            )
        starts = np.cumsum([0, *lengths.tolist()]).tolist()
        return Sequences(lengths, values.shape[1], lambda i: values[starts[i] : starts[i + 1]])
    size, steps, width = values.shape
    if lengths is None:
        lengths = np.full(size, steps)
    if len(lengths) != size or lengths.max() > steps:
        raise ValueError(
            f"{path}: {LENGTHS}: expected {size}, of at most {steps} steps, as {VALUES} {values.shape} has, "
            f"got {len(lengths)}, of at most {lengths.max()}"
        )
    return Sequences(lengths, width, lambda i: values[i, : lengths[i]])


def _read_list(path: Path, file) -> Sequences:
    """The arrays ``arr_0``, ``arr_1``, ..."""
    numbers = sorted(int(match[1]) for match in map(LIST.match, file.files) if match)
    if numbers != list(range(len(numbers))):
        raise ValueError(f"{path}: expected arrays arr_0 to arr_{len(numbers) - 1}, got no arr_{_gap(numbers)}")
    arrays: List[np.ndarray] = []
    for number in numbers:
        array = _read(path, file, f"arr_{number}")
        array = array[:, None] if array.ndim == 1 else array
        _check_values(path, f"arr_{number}", array, (2,), "[T, D]")
        arrays.append(array)
        width = arrays[0].shape[1]
        if array.shape[1] != width:
            raise ValueError(f"{path}: arr_{number}: expected {width} features, as arr_0 has, got {array.shape[1]}")
    return Sequences(np.array([len(array) for array in arrays]), width, arrays.__getitem__)


def _gap(numbers: List[int]) -> int:
    return next(place for place, number in enumerate(numbers) if place != number)


def _check_values(path: Path, name: str, array: np.ndarray, dimensions: Tuple[int, ...], shapes: str) -> None:
    """Raise ValueError for an array of another shape, or of no numbers."""
    if array.ndim not in dimensions or 0 in array.shape or array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise ValueError(f"{path}: {name}: expected numbers {shapes}, got {array.dtype} {array.shape}")


def _name_labels(path: Path, arrays: Dict[str, np.ndarray]) -> Tuple[List[str], Optional[List[str]]]:
    """The label of each sequence, and the classes; None if the labels are numbers to predict."""
    if TARGETS in arrays:
        return [write_target(numbers) for numbers in arrays[TARGETS]], None
    labels = arrays[LABELS]
    if LABEL_NAMES not in arrays:
        named = _names(path, LABELS, labels)
        return named, sorted(set(named)) if labels.dtype.kind == "U" else list(map(str, np.unique(labels).tolist()))
    names = _names(path, LABEL_NAMES, arrays[LABEL_NAMES])
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{path}: {LABEL_NAMES}: expected each name once, got {name!r} {names.count(name)} times")
    if labels.dtype.kind == "U" or labels.min() < 0 or labels.max() >= len(names):
        raise ValueError(f"{path}: {LABELS}: expected numbers of 0 to {len(names) - 1}, as there are {LABEL_NAMES}")
    return [names[label] for label in labels], names


def _names(path: Path, argument: str, array: np.ndarray) -> List[str]:
    """Numbers or names as they will be read from the manifest. Raises ValueError for one that it can't hold."""
    try:
        return [clean_value("name", str(value)) for value in array.tolist()]
    except ValueError as error:
        raise ValueError(f"{path}: {argument}: {error}") from error


def _unpack(path: Path) -> np.ndarray:
    """``values``, mapped from a temporary file, as they may not fit into memory; the file is deleted with the array."""
    try:
        with zipfile.ZipFile(path) as archive, tempfile.NamedTemporaryFile(suffix=".npy") as file:
            with archive.open("values.npy") as member:
                shutil.copyfileobj(member, file)
            file.flush()
            values = np.lib.format.open_memmap(file.name, mode="r")
    except Exception as error:  # a file can be broken in any way
        reason = PICKLED + ARRAYS_HINT if "Python objects" in str(error) else f"can't be read ({first_sentence(error)})"
        raise ValueError(f"{path}: {VALUES}: {reason}") from error
    _check_values(path, VALUES, values, (2, 3), "[sum of steps, D], [N, T, D] or [N, T]")
    return values
