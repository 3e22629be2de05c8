"""Reads what ``skiprnn-prepare features`` takes besides Charades and single files: a folder of arrays."""

from pathlib import Path
from typing import Any, Dict, List, Optional

from ..data.features import FeatureStore, read_items
from ..data.manifest import (
    CLASSES,
    MANIFEST,
    MANIFEST_CSV,
    Item,
    check_labels,
    find_labels,
    find_manifest,
    read_classes,
)
from ..data.targets import CURE, RENAME, are_targets, find_missing, find_nan, read_targets
from .frame_encoder import find_encoding_options
from .record import find_columns, find_record
from .write_features import LABELS, NUMBERS, Source


def read_folder(folder: Path, regression: Optional[bool] = None) -> Source:
    """A folder as described in :mod:`skiprnn_plugin.data.features`.

    If the folder was made by ``skiprnn-prepare``, its features keep their names.

    Args:
        folder: the folder.
        regression: whether the labels are numbers to predict; None: if ``prepare.json`` says so, or if all are numbers,
            any has a fraction, and there is no ``classes.txt``.

    Raises:
        ValueError: it has no manifest, or any of its files is wrong, or ``regression`` is None and at least half of
            the labels have a fraction, but another is not a number, or all are numbers, some of them with a decimal
            comma.
    """
    if not find_manifest(folder).exists():
        paths = (path for pattern in ("*", "*/*") for path in folder.glob(pattern))  # perhaps a folder for each person
        has_tables = any(path.suffix.lower() == ".csv" for path in paths)
        cure = "; .csv files must be joined into one, docs/data.md has a program that does it" if has_tables else ""
        raise ValueError(f"{folder}: expected a folder with {MANIFEST} or {MANIFEST_CSV}, got one with neither{cure}")
    record = find_record(folder)
    if regression is None and record.get(LABELS) == NUMBERS:
        regression = True
    items = read_items(folder, ("label",) if regression else ())
    has_labels = "label" in items[0].fields and not (folder / CLASSES).is_file()
    labels = [item.label for item in items] if has_labels else []

    def refuse(index: Optional[int], wanted: str, cure: str) -> None:
        if index is not None:
            place = f"{find_manifest(folder)}:{items[index].line}: label"
            raise ValueError(f"{place}: expected {wanted}, got {labels[index]!r}{cure}")

    if regression is None:
        refuse(find_missing(labels), "a number to predict", CURE)
        regression = are_targets(labels)
        if not regression and are_targets([label.replace(",", ".") for label in labels]):
            comma = next(index for index, label in enumerate(labels) if "," in label)
            refuse(comma, "a number with a decimal point", "; --no-regression takes labels as classes")
    if regression:
        read_targets(folder, items)
    else:
        refuse(find_nan(labels), "a class", RENAME)
    classes = None if regression else list_classes(folder, items)
    store = FeatureStore(folder, items)
    store.check(range(len(items)))
    rows = [{**item.fields, "sequence": item.name} for item in items]
    names = find_columns(record).features
    return Source(folder, rows, store.width, classes, store.view, features=names)


def find_origin(folder: Path) -> Dict[str, Any]:
    """What the record of a folder says of where its numbers come from, and what a record of the same numbers is to say
    again: the column of the sequences, and how videos were encoded."""
    record = find_record(folder)
    sequence = find_columns(record).sequence
    encoding = {name: value for name, value in find_encoding_options(record).items() if name != "dtype"}
    return {**encoding, **({} if sequence is None else {"sequence_column": sequence})}


def list_classes(folder: Path, items: List[Item]) -> List[str]:
    """The classes of a manifest's items: the lines of ``classes.txt``, or the sorted labels of the split train.

    Raises ValueError if there are no labels, or if a label is not one of the classes.
    """
    if "label" not in items[0].fields and items[0].annotations is None:
        raise ValueError(f"{find_manifest(folder)}:1: expected a column 'label' or 'annotations', got neither")
    if (folder / CLASSES).is_file():
        classes = read_classes(folder)
    else:
        classes = find_labels(items, "train")
        if not classes:
            found = ", ".join(sorted({item.split for item in items}))
            raise ValueError(f"{find_manifest(folder)}: expected sequences of split train, got only {found}")
    check_labels(folder, items, classes)
    return classes
