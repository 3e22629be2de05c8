"""The adding task's sequences (Hochreiter and Schmidhuber 1997, as set up in the Skip RNN paper, section 4.1)."""

from typing import Tuple

import numpy as np

from .synthetic import SyntheticDataset


def target_variance(low: float, high: float) -> float:
    """The variance of the sum of two values from U(low, high); it is 1/6 for U(-0.5, 0.5)."""
    return 2 * (high - low) ** 2 / 12


class AddingDataset(SyntheticDataset):
    """Sequences of (value, marker) pairs; the target is the sum of the two marked values.

    Values are drawn from U(low, high). The first marker is uniform over the first tenth of the steps (over at least
    one step), the second over the last half.

    Args:
        length: the number of steps of a sequence, T >= 2.
        low, high: the range of the values.
        size, key, fixed: see :class:`SyntheticDataset`.
    """

    def __init__(self, length: int, low: float, high: float, size: int, key: Tuple[int, ...], fixed: bool):
        self.length = length
        self.low = low
        self.high = high
        super().__init__(size, key, fixed)

    def draw(self, rng: np.random.Generator, size: int) -> Tuple[np.ndarray, np.ndarray]:
        x = np.zeros((size, self.length, 2), dtype=np.float32)
        x[:, :, 0] = rng.uniform(self.low, self.high, (size, self.length))
        rows = np.arange(size)
        first = rng.integers(0, max(self.length // 10, 1), size)
        second = rng.integers(self.length // 2, self.length, size)
        x[rows, first, 1] = 1
        x[rows, second, 1] = 1
        return x, x[rows, first, 0] + x[rows, second, 0]
