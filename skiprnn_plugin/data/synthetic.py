"""Sequences drawn at random: a training set is drawn again in every epoch, a held-out set only once."""

from typing import Tuple

import numpy as np

from .sequence import SequenceDataset


class SyntheticDataset(SequenceDataset):
    """A set of random sequences of equal length; a subclass draws one epoch of them.

    Item i of epoch e depends only on (``key``, e, i), so that a run repeats with any number of workers.

    Args:
        size: the number of sequences in an epoch.
        key: integers that seed the random draws (see :func:`~skiprnn_plugin.data.sequence.split_key`).
        fixed: whether every epoch has the same sequences, as a held-out set has.
    """

    def __init__(self, size: int, key: Tuple[int, ...], fixed: bool):
        self.key = key
        self.fixed = fixed
        self._size = size
        self._epoch = None
        self.set_epoch(1)

    def draw(self, rng: np.random.Generator, size: int) -> Tuple[np.ndarray, np.ndarray]:
        """Draw the inputs, float32 [size, T, D], and targets, [size], of an epoch."""
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
