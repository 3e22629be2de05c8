"""Sequences of features with any number of labels at each step, and the points in time at which they are evaluated."""

from typing import Any, Dict, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from .features import FeatureDataset, FeatureStore, Frames
from .manifest import Annotation


def evaluation_times(duration: float, count: int) -> np.ndarray:
    """The ``count`` times at which a sequence is evaluated, in seconds: t_j = (j - 1) / count * duration.

    The division comes before the multiplication, as in Charades' official program, so that the rounding is the same.
    """
    return np.arange(count) / count * duration


def labels_at(times: np.ndarray, annotations: Sequence[Annotation], classes: Dict[str, int]) -> np.ndarray:
    """Which classes are present at each time, those with start <= time <= end: bool [times, classes].

    Args:
        times: seconds from the sequence's start, [times].
        annotations: several may have the same class; one that ends before it starts is never present.
        classes: the index of each class, by its name.
    """
    labels = np.zeros((len(times), len(classes)), dtype=bool)
    for label, start, end in annotations:
        labels[(start <= times) & (times <= end), classes[label]] = True
    return labels


class LocalizationDataset(FeatureDataset):
    """The sequences of a split, with a target for each step, bool [T, C].

    Held-out items also have ``points``: ``steps``, int64 [N], the steps whose predictions are evaluated at the N times
    of :func:`evaluation_times`, and ``target``, bool [N, C]. The step for time t is number floor(frame_rate * t), or
    the last one if there are fewer steps.

    Args:
        store, frames, positions, key, fixed: see :class:`FeatureDataset`.
        classes: the names of the classes, [C].
        frame_rate: the number of steps in a second.
        eval_points: the number of times at which a sequence is evaluated, N.
    """

    def __init__(
        self,
        store: FeatureStore,
        frames: Frames,
        positions: Sequence[int],
        key: Tuple[int, ...],
        fixed: bool,
        *,
        classes: Sequence[str],
        frame_rate: float,
        eval_points: int,
    ):
        annotations = [store.items[position].annotations for position in positions]
        super().__init__(store, frames, positions, annotations, key, fixed)
        self.classes = {name: number for number, name in enumerate(classes)}
        self.frame_rate = frame_rate
        self.eval_points = eval_points

    def read(self, index: int) -> Tuple[np.ndarray, np.ndarray]:
        x, annotations = super().read(index)
        times = (self._first_step(index) + np.arange(len(x))) / self.frame_rate
        return x, labels_at(times, annotations, self.classes)

    def __getitem__(self, index: int) -> dict:
        sample = super().__getitem__(index)
        return {**sample, "points": self._points(index)} if self.fixed else sample

    def has_positives(self) -> bool:
        """Whether any class is present at any evaluation time."""
        return any(self._points(index)["target"].any() for index in range(len(self)))

    def _points(self, index: int) -> Dict[str, np.ndarray]:
        times = evaluation_times(self.items[index].duration, self.eval_points)
        steps = np.floor(self.frame_rate * times).astype(np.int64) - self._first_step(index)
        last = min(self.items[index].steps, self.size(index)) - 1
        return {
            "steps": steps.clip(0, last),
            "target": labels_at(times, self.targets[index], self.classes),
        }

    def _first_step(self, index: int) -> int:
        """How many steps are cropped before the first one that is kept."""
        return self.frames.fit.kept(self.items[index].steps).start

    def collate_targets(self, targets: Sequence[np.ndarray]) -> Tensor:
        """The targets of a batch, bool [B, T, C]; False at padding."""
        return pad_sequence([torch.from_numpy(target) for target in targets], batch_first=True)

    def collater(self, samples) -> Dict[str, Any]:
        batch = super().collater(samples)
        if batch and self.fixed:
            points = [sample["points"] for sample in samples]
            batch["points"] = {
                name: torch.from_numpy(np.stack([point[name] for point in points])) for name in ("steps", "target")
            }
        return batch
