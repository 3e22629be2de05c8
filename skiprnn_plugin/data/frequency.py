"""The frequency discrimination task's sequences (the Skip RNN paper, section 4.2)."""

from typing import Tuple

import numpy as np

from .synthetic import SyntheticDataset

TARGET_PERIODS = (5.0, 6.0)  # ms; the range of the periods of class 0


class FrequencyDataset(SyntheticDataset):
    """Sampled sine waves; the target, int64, says whether the period is in ``TARGET_PERIODS`` (0) or not (1).

    The only feature at step k is cos(2 pi (k dt + shift) / period), where dt is the sampling period and
    shift ~ U(0, period). The period of class 0 is uniform over ``TARGET_PERIODS``. The period of class 1 is uniform
    over (min_period, max_period) without ``TARGET_PERIODS``, so that each of the two intervals that remain is chosen in
    proportion to its length. A period is never 0.

    Item i has class i mod 2. fairseq makes batches of consecutive items, so a batch of any size has as many items of
    one class as of the other, to within one.

    Args:
        steps: the number of steps of a sequence, T.
        sampling_period: the time between two steps, in ms.
        min_period, max_period: the range of periods in ms, with 0 <= min_period <= 5 and max_period > 6.
        size, key, fixed: see :class:`SyntheticDataset`.
    """

    def __init__(
        self,
        steps: int,
        sampling_period: float,
        min_period: float,
        max_period: float,
        size: int,
        key: Tuple[int, ...],
        fixed: bool,
    ):
        self.times = np.arange(steps) * sampling_period
        self.min_period = min_period
        self.max_period = max_period
        super().__init__(size, key, fixed)

    def draw(self, rng: np.random.Generator, size: int) -> Tuple[np.ndarray, np.ndarray]:
        target = np.arange(size, dtype=np.int64) % 2
        low, high = TARGET_PERIODS
        fraction = 1 - rng.random(size)  # in (0, 1], so that no period is 0
        other = self.min_period + fraction * (low - self.min_period + self.max_period - high)
        other = np.where(other > low, other + high - low, other)
        period = np.where(target == 0, low + fraction * (high - low), other)
        phase = rng.random(size)  # shift / period
        x = np.cos(2 * np.pi * (self.times / period[:, None] + phase[:, None]))
        return x.astype(np.float32)[:, :, None], target
