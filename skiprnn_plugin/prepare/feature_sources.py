"""Reads what ``skiprnn-prepare features`` takes besides Charades and single files: a folder of arrays."""

from pathlib import Path
from typing import List

from ..data.features import FeatureStore, read_items
from ..data.manifest import CLASSES, Item, check_labels, find_labels, find_manifest, read_classes
from .write_features import Source


def read_folder(folder: Path) -> Source:
    """A folder as described in :mod:`skiprnn_plugin.data.features`. Raises ValueError if any of its files is wrong."""
    items = read_items(folder, ())
    classes = list_classes(folder, items)
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
    classes = read_classes(folder) if (folder / CLASSES).is_file() else find_labels(items, "train")
    check_labels(folder, items, classes)
    return classes
