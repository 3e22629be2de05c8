"""Checks of what users of the estimators pass as X and y, and a fingerprint of it."""

import contextlib
import zlib
from typing import Any, List, Sequence, Tuple, Union

import numpy as np

from .reading import LARGEST, first_sentence

Recordings = Union[np.ndarray, Sequence[np.ndarray]]
ONE = "Reshape your data: one recording goes in as [X]"
NUMBERS = "expected a list of arrays [T, D], or an array [N, T, D]"


def _without_torch(value: Any) -> Any:
    """A tensor of torch such that numpy takes it: on the CPU, without a gradient, and of no type that numpy lacks."""
    if not hasattr(value, "detach"):
        return value
    value = value.detach().cpu()
    return value.float() if str(value.dtype) == "torch.bfloat16" else value


def _with_numbers(array: np.ndarray) -> np.ndarray:
    """An array of objects that are all numbers, such as pandas makes, as float64; any other array as it is."""
    if array.dtype.kind == "O" and not any(isinstance(value, (str, bytes, bool)) for value in array.flat):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            return array.astype(np.float64)
    return array


def _as_array(y: Sequence[Any]) -> np.ndarray:
    if np.ma.is_masked(y):
        raise ValueError("y: expected a label for each recording, got masked ones")
    try:
        return np.asarray(_without_torch(y))
    except ValueError as error:
        raise ValueError("y: expected one row for each recording, got rows of different lengths") from error


def as_labels(y: Sequence[Any], size: int) -> np.ndarray:
    """The labels as an array [size] of whole numbers, bools or texts.

    Raises:
        ValueError: there are more or fewer, or one is something else, such as NaN, a number with a fraction or a date.
    """
    labels = _as_array(y)
    if labels.shape != (size,):
        raise ValueError(f"y: expected {size} labels, one for each recording, got shape {labels.shape}")
    if labels.dtype.kind in "OT" or labels.dtype.kind == "U" and not hasattr(y, "dtype"):
        # numpy turns the other values of a list with texts, such as NaN, into texts
        values = labels.tolist() if labels.dtype.kind == "O" else y
        others = [value for value in values if not isinstance(value, str)]
        if len(others) == len(values):
            labels = np.asarray(others)  # numbers of an array of objects
        elif others:
            raise ValueError(f"y: expected labels that are all numbers, or all texts, got {others[0]!r}")
        else:
            # A subclass, such as an Enum, may turn into another text
            labels = np.asarray([str.__str__(value) for value in values])
    if labels.dtype.kind not in "biufU":
        raise ValueError(f"y: expected labels that are numbers, bools or texts, got {labels.dtype}")
    if labels.dtype.kind == "f":
        if labels.dtype.itemsize > 8:  # which checkpoints do not hold
            labels = labels.astype(np.float64)
        if not np.isfinite(labels).all():
            raise ValueError("y: expected finite numbers, got NaN or infinity")
        fractions = labels[labels != np.floor(labels)]
        if len(fractions):
            raise ValueError(
                f"y: expected classes, got continuous numbers such as {fractions[0]:g}, which SkipRNNRegressor "
                "predicts; classes with such names go in as texts"
            )
    return labels


def as_targets(y: Sequence[Any], size: int) -> Tuple[np.ndarray, bool]:
    """The targets as float64 [size, outputs], and whether they are [size], one number for each recording.

    Raises:
        ValueError: there are more or fewer, or one is not a finite number.
    """
    targets = _with_numbers(_as_array(y))
    if targets.ndim not in (1, 2) or len(targets) != size or targets.size == 0:
        raise ValueError(
            f"y: expected {size} numbers, or [{size}, outputs], a row for each recording, got shape {targets.shape}"
        )
    if targets.dtype.kind not in "iuf":
        raise ValueError(f"y: expected numbers, got {targets.dtype}; SkipRNNClassifier takes classes")
    targets = targets.astype(np.float64)  # numpy would make a float32 of the limit
    if not np.isfinite(targets).all():
        raise ValueError("y: expected finite numbers, got NaN or infinity")
    if np.abs(targets).max() > LARGEST:
        raise ValueError(f"y: expected numbers up to {LARGEST:g}, got {np.abs(targets).max():g}")
    return targets.reshape(size, -1), targets.ndim == 1


def as_recordings(X: Recordings, limit: float = LARGEST) -> List[np.ndarray]:
    """Recordings as arrays [T, D] of the same D and of finite numbers, whose absolute values are at most ``limit``.

    Raises:
        ValueError: a recording is something else; the message names it.
    """
    if hasattr(X, "__array__") and not hasattr(X, "__len__"):
        X = np.asarray(X)
    is_sparse = hasattr(X, "nnz")  # of scipy's sparse arrays
    if isinstance(X, (str, dict)) or hasattr(X, "columns") or is_sparse or not hasattr(X, "__len__"):
        # A DataFrame has columns
        raise ValueError(f"X: {NUMBERS}, got {'sparse ' if is_sparse else ''}{type(X).__name__}")
    if getattr(X, "ndim", 1) == 0:  # numpy's numbers, and arrays and tensors of one number
        raise ValueError(f"X: {NUMBERS}, got shape ()")
    if len(X) == 0:
        raise ValueError("X: expected recordings, got none")
    if isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype.kind in "iuf":
        raise ValueError(f"X: {NUMBERS}, got one array {X.shape}. {ONE}")
    arrays = []
    for place, recording in enumerate(X):
        if np.ma.is_masked(recording):
            raise ValueError(f"X[{place}]: expected numbers, got masked ones")
        try:
            array = _with_numbers(np.asarray(_without_torch(recording)))
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"X[{place}]: expected numbers [T, D], got {first_sentence(error)}") from error
        array = array[:, None] if array.ndim == 1 else array
        if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "iuf":
            hint = ". Complex data not supported" if array.dtype.kind == "c" else ""  # in scikit-learn's words
            raise ValueError(f"X[{place}]: expected numbers [T, D], got {array.dtype} {array.shape}{hint}")
        if arrays and array.shape[1] != arrays[0].shape[1]:
            raise ValueError(
                f"X[{place}]: expected {arrays[0].shape[1]} numbers in a sample, as in X[0], got {array.shape[1]}"
            )
        if not np.isfinite(array).all():
            raise ValueError(f"X[{place}]: expected finite numbers, got NaN or infinity")
        largest = max(float(array.max()), -float(array.min()))  # numpy would make a float32 of the limit
        if largest > limit:
            raise ValueError(f"X[{place}]: expected numbers up to {limit:g}, got {largest:g}")
        arrays.append(array)
    return arrays


def name_classes(classes: np.ndarray) -> List[str]:
    """The classes as texts. Raises ValueError if two would have the same, or one that can't be written in a line."""
    from .data.manifest import clean_value

    try:
        names = [clean_value("class", str(value)) for value in classes.tolist()]
    except ValueError as error:
        raise ValueError(f"y: {error}") from error
    if len(set(names)) < len(names):
        raise ValueError(f"y: expected classes that differ as texts, got {names}")
    return names


def fingerprint(arrays: Sequence[np.ndarray], labels: Sequence[str]) -> int:
    """A number that tells recordings and their labels from others."""
    number = zlib.crc32("\n".join(labels).encode())
    for array in arrays:
        number = zlib.crc32(np.ascontiguousarray(array), zlib.crc32(str(array.shape).encode(), number))
    return number
