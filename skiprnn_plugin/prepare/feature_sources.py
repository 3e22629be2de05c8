"""Reads what ``skiprnn-prepare features`` takes besides Charades: a folder of arrays, or a file of several subjects."""

import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np

from ..data.features import FeatureStore
from ..data.manifest import (
    CLASSES,
    MANIFEST,
    Item,
    check_labels,
    clean_value,
    find_labels,
    read_classes,
    read_manifest,
)
from ..reading import first_sentence
from .write_features import Source

ARRAYS = ("values", "lengths", "labels", "subject")


def read_folder(folder: Path) -> Source:
    """A folder as described in :mod:`skiprnn_plugin.data.features`. Raises ValueError if any of its files is wrong."""
    items, classes = read_labelled(folder)
    store = FeatureStore(folder, items)
    store.check(range(len(items)))
    return Source(folder, [item.fields for item in items], store.width, classes, store.view)


def read_labelled(folder: Path, has_steps: bool = True) -> Tuple[List[Item], List[str]]:
    """The manifest's items, and their classes: the lines of ``classes.txt``, or the sorted labels of the split train.

    Raises ValueError if there are no labels, or if a label is not one of the classes.
    """
    items = read_manifest(folder, (), has_steps)
    if "label" not in items[0].fields and items[0].annotations is None:
        raise ValueError(f"{folder / MANIFEST}:1: expected a column 'label' or 'annotations', got neither")
    classes = read_classes(folder) if (folder / CLASSES).is_file() else find_labels(items, "train")
    check_labels(folder, items, classes)
    return items, classes


def read_subjects(
    path: Path,
    *,
    held_out_subjects: Optional[Sequence[str]],
    valid_subjects: Optional[Sequence[str]],
    held_out_fraction: float,
    valid_fraction: float,
    seed: int,
) -> Source:
    """Sequences of several subjects from an ``.npz`` file; some of the subjects are held out.

    The file holds ``values`` [sum of steps, D], the sequences one after the other, and three arrays with an element for
    each sequence: ``lengths``, its number of steps, and ``labels`` and ``subject``, numbers or names. If the labels are
    numbers from 0, it may also hold ``label_names``. Spaces around names do not count.

    Args:
        path: the file.
        held_out_subjects: the subjects of the split test; None draws them.
        valid_subjects: the subjects of the split valid; None draws them.
        held_out_fraction, valid_fraction: the fraction of all subjects to draw.
        seed: the seed of these draws.

    Raises:
        ValueError: the file is not what it should be, a named subject does not exist, or a split gets no subject.
    """
    arrays = _read_arrays(path)
    lengths, (labels, classes) = arrays["lengths"], _name_labels(path, arrays)
    subjects = _names(path, "subject", arrays["subject"])
    names = list(dict.fromkeys(subjects[place] for place in np.argsort(arrays["subject"], kind="stable")))
    splits: Dict[str, str] = {}
    for split, option, chosen in (
        ("test", "held_out_subjects", held_out_subjects),
        ("valid", "valid_subjects", valid_subjects),
    ):
        for subject in chosen or ():
            if subject not in names or subject in splits:
                raise ValueError(f"{option}: expected some of {', '.join(names)}, each once, got {subject!r}")
            splits[subject] = split
    free = [name for name in np.random.default_rng(seed).permutation(names).tolist() if name not in splits]
    for split, chosen, fraction in (
        ("test", held_out_subjects, held_out_fraction),
        ("valid", valid_subjects, valid_fraction),
    ):
        count = 0 if chosen else round(fraction * len(names))
        splits.update(dict.fromkeys(free[:count], split))
        del free[:count]
    rows = [
        {"sequence": str(number), "split": splits.get(subject, "train"), "label": label, "subject": subject}
        for number, (label, subject) in enumerate(zip(labels, subjects))
    ]
    for split in ("train", "valid", "test"):
        if not any(row["split"] == split for row in rows):
            raise ValueError(f"{path}: expected subjects for each split, got none of {len(names)} for {split}")
    values = _unpack(path)
    if len(values) != lengths.sum():
        raise ValueError(
            f"{path}: expected as many values as lengths add up to, {lengths.sum():,}, got {len(values):,}"
        )
    starts = np.cumsum([0, *lengths.tolist()]).tolist()
    return Source(path, rows, values.shape[1], classes, lambda i: values[starts[i] : starts[i + 1]])


def _read_arrays(path: Path) -> Dict[str, np.ndarray]:
    """All arrays but ``values``. Raises ValueError if one is missing or is not what it should be."""
    try:
        with np.load(path, allow_pickle=False) as file:
            missing = [name for name in ARRAYS if name not in file.files]
            found = {name: file[name] for name in (*ARRAYS[1:], "label_names") if name in file.files}
    except Exception as error:  # a file can be broken in any way
        raise ValueError(f"{path}: can't be read as a .npz file ({first_sentence(error)})") from error
    if missing:
        raise ValueError(f"{path}: expected arrays {', '.join(ARRAYS)}, it has no {' and no '.join(missing)}")
    shape = found["lengths"].shape
    for name, kinds in (("lengths", "iu"), ("labels", "iuU"), ("subject", "iuU"), ("label_names", "U")):
        array = found.get(name)
        if array is None:
            continue
        if array.ndim != 1 or len(array) == 0 or array.dtype.kind not in kinds:
            what = "whole numbers" if kinds == "iu" else "names" if kinds == "U" else "whole numbers or names"
            raise ValueError(f"{path}: {name}: expected {what} in one row, got {array.dtype} {array.shape}")
        if name != "label_names" and array.shape != shape:
            raise ValueError(f"{path}: {name}: expected one for each of the {shape[0]} lengths, got {len(array)}")
    if found["lengths"].min() < 1:
        raise ValueError(f"{path}: lengths: expected at least 1, got {found['lengths'].min()}")
    return found


def _name_labels(path: Path, arrays: Dict[str, np.ndarray]) -> Tuple[List[str], List[str]]:
    """The label of each sequence, and the classes."""
    labels = arrays["labels"]
    if "label_names" not in arrays:
        named = _names(path, "labels", labels)
        return named, sorted(set(named)) if labels.dtype.kind == "U" else list(map(str, np.unique(labels).tolist()))
    names = _names(path, "label_names", arrays["label_names"])
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{path}: label_names: expected each name once, got {name!r} {names.count(name)} times")
    if labels.dtype.kind == "U" or labels.min() < 0 or labels.max() >= len(names):
        raise ValueError(f"{path}: labels: expected numbers of 0 to {len(names) - 1}, as there are label_names")
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
        raise ValueError(f"{path}: values: can't be read ({first_sentence(error)})") from error
    if values.ndim != 2 or values.shape[1] == 0 or values.dtype.kind != "f" or values.dtype.itemsize > 8:
        raise ValueError(f"{path}: values: expected floats [steps, features], got {values.dtype} {values.shape}")
    return values
