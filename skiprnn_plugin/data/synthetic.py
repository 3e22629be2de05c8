"""Sequences drawn on the fly: a new set every epoch in training, one fixed set when held out."""

from typing import Tuple

import numpy as np

from .sequence import SequenceDataset


class SyntheticDataset(SequenceDataset):
    """A set of equally long random sequences; a subclass says how to draw one epoch of them.

    Item i of epoch e depends on (``key``, e, i) alone, so that a run repeats with any number of workers.

    Args:
        size: sequences in an epoch.
        key: integers that tell this set from all others (the seed and the split).
        fixed: whether every epoch has the same sequences (held-out sets).
    """

    def __init__(self, size: int, key: Tuple[int, ...], fixed: bool):
        self.key = key
        self.fixed = fixed
        self._size = size
        self._epoch = None
        self.set_epoch(1)

    def draw(self, rng: np.random.Generator, size: int) -> Tuple[np.ndarray, np.ndarray]:
        """Inputs, float32 [size, T, D], and targets, [size]."""
        raise NotImplementedError

    def set_epoch(self, epoch: int) -> None:
        epoch = 0 if self.fixed else epoch
        if epoch != self._epoch:
            self._epoch = epoch
            rng = np.random.default_rng([*self.key, epoch])
            self.x, self.target = self.draw(rng, self._size)
            self.seed = rng.integers(2**63 - 1, size=self._size)

    def __getitem__(self, index: int) -> dict:
        return {"id": index, "x": self.x[index], "target": self.target[index], "seed": self.seed[index]}

    def __len__(self) -> int:
        return self._size

    def num_tokens_vec(self, indices: np.ndarray) -> np.ndarray:
        return np.full(len(indices), self.x.shape[1])

    def size(self, index: int) -> int:
        return self.x.shape[1]
