"""Sequences of feature vectors, one for each frame of a video or each reading of a sensor, stored as numpy arrays.

A folder of features holds ``manifest.tsv`` (see :mod:`skiprnn_plugin.data.manifest`) and either ``features.npy``,
[sum of all steps, D], with the sequences one after the other in the manifest's order, or a file ``NAME.npy`` for each
sequence, [T, D], or [T] for one feature. ``skiprnn-prepare features`` and ``skiprnn-prepare video`` make such a folder.
"""

import functools
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..reading import LARGEST, first_sentence, show_progress
from .fit import Fit
from .manifest import Item, find_manifest, read_manifest
from .sequence import StoredDataset

FEATURES = "features.npy"
STATISTICS = "statistics.npz"
ROUNDING = 1e-14  # of the mean; a standard deviation that is smaller comes from rounding in float64


def open_array(path: Path) -> np.ndarray:
    """Map a stored array of numbers [T, D], or [T] for one feature, into memory without reading it, as [T, D].

    Raises ValueError if the file is anything else.
    """
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    try:
        # This compares the header with the file's size. Slices of a np.memmap take long to make.
        array = np.lib.format.open_memmap(path, mode="r").view(np.ndarray)
    except Exception as error:  # a file can be broken in any way
        raise ValueError(f"{path}: can't be read as a numpy array ({first_sentence(error)})") from error
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise ValueError(f"{path}: expected integers, float16, float32 or float64, got {array.dtype}")
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"{path}: expected an array of steps and features, [T, D], got shape {array.shape}")
    return array


def read_items(folder: Path, columns: Sequence[str]) -> List[Item]:
    """Read the manifest of a folder of features; names in it may end in ``.npy``, as their files do.

    If the manifest lacks the column ``steps``, the arrays' files tell the steps. ``columns`` are required, see
    :func:`read_manifest`. Raises ValueError if the manifest or such a file can't be read.
    """
    is_joint = (folder / FEATURES).is_file()
    items = [_without_suffix(item) for item in read_manifest(folder, columns, has_steps=is_joint)]
    lines: Dict[str, int] = {}
    for item in items:
        if lines.setdefault(item.name, item.line) != item.line:
            place = f"{find_manifest(folder)}:{item.line}"
            raise ValueError(f"{place}: sequence {item.name!r} is in line {lines[item.name]} too")
    if "steps" in items[0].fields:
        return items
    shown = show_progress(items, str(folder), unit=" files")
    return [item._replace(steps=len(open_array(folder / f"{item.name}.npy"))) for item in shown]


def _without_suffix(item: Item) -> Item:
    return item._replace(name=item.name[: -len(".npy")]) if item.name.endswith(".npy") else item


class FeatureStore:
    """The stored arrays of a folder, mapped into memory and read piece by piece.

    A pickle holds the paths, not the arrays.

    Args:
        folder: the folder, laid out as this module's docstring says.
        items: all items of its manifest.

    Attributes:
        width: the number of features of a step, D.

    Raises:
        ValueError: an array can't be read, or does not have as many steps as the manifest says.
    """

    def __init__(self, folder: Path, items: Sequence[Item]):
        self.folder = folder
        self.items = list(items)
        self.is_joint = (folder / FEATURES).is_file()
        self.starts = np.cumsum([0, *(item.steps for item in items)])
        self._joint: Optional[np.ndarray] = None
        if self.is_joint and len(self.joint) != self.starts[-1]:
            manifest = find_manifest(folder).name
            raise ValueError(
                f"{folder / FEATURES}: expected {self.starts[-1]:,} steps, as many as {manifest} has, "
                f"got {len(self.joint):,}"
            )
        self.width = (self.joint if self.is_joint else open_array(self.path(0))).shape[1]

    @property
    def joint(self) -> np.ndarray:
        """All of ``features.npy``."""
        if self._joint is None:
            self._joint = open_array(self.folder / FEATURES)
        return self._joint

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_joint": None}  # pickling a mapped array would copy all its numbers

    def path(self, position: int) -> Path:
        """The file that holds the sequence at this position of the manifest."""
        return self.folder / (FEATURES if self.is_joint else f"{self.items[position].name}.npy")

    def view(self, position: int) -> np.ndarray:
        """The sequence of an item as it is stored, [T, D], mapped and not read yet."""
        if self.is_joint:
            return self.joint[self.starts[position] : self.starts[position + 1]]
        path, item = self.path(position), self.items[position]
        array = open_array(path)
        if array.shape != (item.steps, self.width):
            manifest = find_manifest(self.folder).name
            raise ValueError(
                f"{path}: expected shape {(item.steps, self.width)} (line {item.line} of {manifest}, and as wide as "
                f"the first), got {array.shape}"
            )
        return array

    def check(self, positions: Sequence[int]) -> None:
        """Raise ValueError if one of these sequences does not have the shape that the manifest says."""
        if not self.is_joint:
            for position in show_progress(positions, str(self.folder)):
                self.view(position)


def as_finite(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert an array [T, D] to another float type. Raises ValueError if a number of the result is not finite, or is
    larger than ``LARGEST``."""
    with np.errstate(over="ignore"):  # an overflow shows as inf, which is refused below
        converted = array.astype(dtype)
    is_wide = float(np.finfo(dtype).max) > LARGEST
    is_right = np.abs(converted) <= LARGEST if is_wide else np.isfinite(converted)
    if not is_right.all():
        step, feature = np.argwhere(~is_right)[0].tolist()
        allowed = f"up to {LARGEST:g}" if is_wide else f"in the range of {np.dtype(dtype)}"
        raise ValueError(
            f"expected finite numbers {allowed}, got {array[step, feature]} "
            f"(step {step} of {len(array)}, feature {feature}, from 0)"
        )
    return converted


class _MeanAndDeviation(NamedTuple):
    mean: np.ndarray
    std: np.ndarray


class Statistics(_MeanAndDeviation):
    """The mean and standard deviation of each feature over all steps of the split train, float64 [D]; or those of each
    number to predict over its sequences."""

    @functools.cached_property  # computing it takes as long as normalising a sample; a NamedTuple itself can't have it
    def scale(self) -> np.ndarray:
        """What to divide by, [D]: the standard deviation, or 1 where it is 0 or an error of rounding."""
        return np.where(self.std > ROUNDING * np.abs(self.mean), self.std, 1)

    def normalize(self, values: np.ndarray) -> np.ndarray:
        """Values [..., D] in units of the standard deviation, from the mean."""
        return (values - self.mean) / self.scale

    def restore(self, values: np.ndarray) -> np.ndarray:
        """The values that :meth:`normalize` turned into ``values``, float64 [..., D]."""
        return np.asarray(values, np.float64) * self.scale + self.mean


def read_statistics(folder: Path) -> Statistics:
    """Read ``statistics.npz``, which holds the arrays ``mean`` and ``std``. Raises ValueError if it can't be read."""
    path = folder / STATISTICS
    if not path.is_file():
        raise ValueError(f"{path}: no such file; skiprnn-prepare features makes it, and features are normalised by it")
    try:
        with np.load(path, allow_pickle=False) as file:
            statistics = Statistics(*(np.asarray(file[name], dtype=np.float64) for name in Statistics._fields))
    except Exception as error:  # a file can be broken in any way
        raise ValueError(f"{path}: can't be read as arrays mean and std ({first_sentence(error)})") from error
    mean, std = statistics
    if mean.ndim != 1 or mean.shape != std.shape or not (np.isfinite(mean) & np.isfinite(std) & (std >= 0)).all():
        raise ValueError(
            f"{path}: expected finite mean and std, at least 0, of each feature, got {mean.shape} and {std.shape}"
        )
    return statistics


class FolderFacts(NamedTuple):
    """What a trained model needs to know of the folder that it was trained on. Its checkpoints hold these facts, so
    that the model can be used without the folder.

    Attributes:
        class_names: the classes, in the order of the model's predictions.
        width: the number of features of a step, D.
        statistics: what ``statistics.npz`` holds; None if it does not exist.
        record: what ``prepare.json`` says about the encoding of videos; None if it can't be read.
        feature_names: what ``prepare.json`` says about the names of the features; None if they have none.
        targets: the statistics of the numbers to predict; None if the model predicts classes.
        sequence_column: the column of the table that the folder was made from which says what sequence a step belongs
            to; None if it is not known.
    """

    class_names: List[str]
    width: int
    statistics: Optional[Statistics] = None
    record: Optional[Dict[str, Any]] = None
    feature_names: Optional[List[str]] = None
    targets: Optional[Statistics] = None
    sequence_column: Optional[str] = None

    def as_state(self) -> Dict[str, Any]:
        """The facts in types that torch loads without running code."""
        state = {**self._asdict(), "class_names": list(self.class_names)}
        for name in ("statistics", "targets"):
            if state[name] is not None:
                state[name] = [values.tolist() for values in state[name]]
        return state

    @classmethod
    def from_state(cls, state: Dict[str, Any]) -> "FolderFacts":
        """The facts that :meth:`as_state` returned; earlier versions stored fewer."""
        known = {name: state[name] for name in cls._fields if name in state}
        for name in ("statistics", "targets"):
            if known.get(name) is not None:
                known[name] = Statistics(*map(np.array, known[name]))
        return cls(**known)


class Frames(NamedTuple):
    """Turns an array of features into a model's input.

    Attributes:
        fit: the length to bring sequences to. Padding is 0 after normalising.
        statistics: what to normalise features by, to mean 0 and standard deviation 1; None leaves them as they are.
    """

    fit: Fit
    statistics: Optional[Statistics] = None

    def __call__(self, array: np.ndarray) -> np.ndarray:
        """From [any number of steps, D] to float32 [T, D]. Raises ValueError if a step that is kept is not finite, or
        is not in the range of float32."""
        frames = self.fit.cropped(array)
        if self.statistics is None:
            return self.fit.padded(as_finite(frames, np.float32))
        # In float64, as float32 could not tell large numbers that differ little
        frames = self.statistics.normalize(as_finite(frames, np.float64))
        try:
            return self.fit.padded(as_finite(frames, np.float32))
        except ValueError as error:
            raise ValueError(f"in units of the training data's standard deviation: {error}") from error


class FeatureDataset(StoredDataset):
    """The sequences of a split.

    Args:
        store: the sequences of all splits.
        frames: turns a stored sequence into a model's input.
        positions: which of the store's items belong to this split, [N].
        targets: what is to be predicted for each of them, [N].
        key, fixed: see :class:`StoredDataset`.

    Attributes:
        items: the manifest's items of this split, [N].
    """

    def __init__(
        self,
        store: FeatureStore,
        frames: Frames,
        positions: Sequence[int],
        targets: Sequence[Any],
        key: Tuple[int, ...],
        fixed: bool,
    ):
        self.store = store
        self.frames = frames
        self.positions = list(positions)
        self.targets = targets
        self.items: List[Item] = [store.items[position] for position in self.positions]
        super().__init__(frames.fit.sizes(np.array([item.steps for item in self.items])), key, fixed)

    def read(self, index: int) -> Tuple[np.ndarray, Any]:
        """The input and target of a sequence. Raises ValueError if a stored number is not finite."""
        position = self.positions[index]
        try:
            return self.frames(self.store.view(position)), self.targets[index]
        except ValueError as error:
            path, item = self.store.path(position), self.items[index]
            if str(error).startswith(str(path)):
                raise
            manifest = find_manifest(self.store.folder).name
            raise ValueError(f"{path}: sequence {item.name!r} (line {item.line} of {manifest}): {error}") from error
