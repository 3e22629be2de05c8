"""Numbers to predict, in a manifest's column ``label``."""

import math
from pathlib import Path
from typing import List, Optional, Sequence

import numpy as np

from .features import Statistics
from .manifest import Item, find_manifest


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


def read_targets(folder: Path, items: Sequence[Item]) -> np.ndarray:
    """The numbers to predict for items of a folder's manifest, float64 [N, numbers of a sequence].

    Raises:
        ValueError: a label does not hold finite numbers, or not as many as the first one.
    """
    targets: List[List[float]] = []
    for item in items:
        numbers = parse_target(item.label)
        if numbers is None or len(numbers) != len((targets or [numbers])[0]):
            wanted = "finite numbers" if not targets else f"{len(targets[0])} finite numbers, as the first label has"
            raise ValueError(f"{find_manifest(folder)}:{item.line}: label: expected {wanted}, got {item.label!r}")
        targets.append(numbers)
    return np.array(targets)


def measure_targets(targets: np.ndarray) -> Statistics:
    """The mean and standard deviation of each number to predict, over the first dimension of ``targets``."""
    return Statistics(targets.mean(0), targets.std(0))
