"""Reads what ``skiprnn-prepare features`` takes besides Charades and single files: a folder of arrays."""

from pathlib import Path
from typing import List, Optional

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
from .write_features import Source


def read_folder(folder: Path, regression: Optional[bool] = None) -> Source:
    """A folder as described in :mod:`skiprnn_plugin.data.features`.

    Args:
        folder: the folder.
        regression: whether the labels are numbers to predict; None: if all are numbers, any has a fraction, and there
            is no ``classes.txt``.

    Raises:
        ValueError: it has no manifest, or any of its files is wrong, or ``regression`` is None and at least half of
            the labels have a fraction, but another is not a number, or all are numbers, some of them with a decimal
            comma.
    """
    if not find_manifest(folder).exists():
        has_tables = any(path.suffix.lower() == ".csv" for path in folder.iterdir())
        cure = "; .csv files must be joined into one, docs/data.md has a program that does it" if has_tables else ""
        raise ValueError(f"{folder}: expected a folder with {MANIFEST} or {MANIFEST_CSV}, got one with neither{cure}")
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
    return Source(folder, rows, store.width, classes, store.view)


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
