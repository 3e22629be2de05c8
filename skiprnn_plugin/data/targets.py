"""Numbers to predict, in a manifest's column ``label``."""

import math
from pathlib import Path
from typing import Iterable, List, Optional, Sequence

import numpy as np

from ..reading import LARGEST
from .features import Statistics
from .manifest import Item, find_manifest

# What a user can do if find_missing has found a label of classes
CURE = ", as the other labels are; --no-regression takes labels as classes"
RENAME = ", a missing value; a class needs another name"


def parse_target(text: str) -> Optional[List[float]]:
    """The finite numbers, separated by spaces, that a label is; None if it is something else."""
    try:
        numbers = [float(word) for word in text.split()]
    except ValueError:
        return None
    is_plain = "_" not in text and all(map(math.isfinite, numbers))  # 1_000 is a number to Python
    return numbers if numbers and is_plain else None


def write_target(numbers: Sequence[float]) -> str:
    """A label that :func:`parse_target` reads as the same numbers."""
    return " ".join(repr(float(number)) for number in numbers)


def are_targets(labels: Sequence[str]) -> bool:
    """Whether labels look like numbers to predict: all are numbers, and at least one has a fraction."""
    found = [parse_target(label) for label in labels]
    return None not in found and any(not number.is_integer() for numbers in found for number in numbers)


def find_missing(labels: Sequence[str], regression: Optional[bool] = None) -> Optional[int]:
    """The index of the first label that is not a number although numbers are expected: with ``regression``, or if at
    least half of the labels have a fraction, as a missing value is then likelier than a class. None without such a
    label."""
    missing = next((index for index, label in enumerate(labels) if parse_target(label) is None), None)
    if missing is None or regression or 2 * sum(are_targets([label]) for label in labels) >= len(labels):
        return missing
    return None


def find_nan(labels: Iterable[str]) -> Optional[int]:
    """The index of the first label that is "nan", as programs write a missing one; None if there is none."""
    return next((index for index, label in enumerate(labels) if label.strip().lower() == "nan"), None)


def read_targets(folder: Path, items: Sequence[Item]) -> np.ndarray:
    """The numbers to predict for items of a folder's manifest, float64 [N, numbers of a sequence].

    Raises:
        ValueError: a label does not hold finite numbers up to ``LARGEST``, or not as many as the first one.
    """
    targets: List[List[float]] = []
    for item in items:
        numbers = parse_target(item.label)
        wanted = None
        if numbers is None or len(numbers) != len((targets or [numbers])[0]):
            wanted = "finite numbers" if not targets else f"{len(targets[0])} finite numbers, as the first label has"
        elif max(map(abs, numbers)) > LARGEST:
            wanted = f"numbers up to {LARGEST:g}"
        if wanted is not None:
            raise ValueError(f"{find_manifest(folder)}:{item.line}: label: expected {wanted}, got {item.label!r}")
        targets.append(numbers)
    return np.array(targets)


def measure_targets(targets: np.ndarray) -> Statistics:
    """The mean and standard deviation of each number to predict, over the first dimension of ``targets``."""
    return Statistics(targets.mean(0), targets.std(0))
