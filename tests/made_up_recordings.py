"""Made-up sensor recordings: noise, in which a burst of a few steps shows the class."""

from typing import List, Tuple

import numpy as np

BURST = 12  # steps
CHANNELS = 3


def make_recordings(
    number: int, shortest: int = 120, longest: int = 260, classes: int = 3, seed: int = 0
) -> Tuple[List[np.ndarray], np.ndarray]:
    """Recordings, float32 [T, 3], and their classes, int64 [number].

    The length T of a recording is uniform over ``shortest`` to ``longest``. Its burst, half a sine wave, begins in the
    first two thirds; the channel that it is in (and, from the fourth class on, its sign) shows the class.
    """
    rng = np.random.default_rng(seed)
    labels = np.arange(number) % classes
    recordings = []
    for label in labels:
        steps = int(rng.integers(shortest, longest + 1))
        values = rng.normal(0, 0.3, (steps, CHANNELS))
        begin = int(rng.integers(0, 2 * (steps - BURST) // 3))
        burst = 2 * np.sin(np.pi * (np.arange(BURST) + 1) / (BURST + 1))
        values[begin : begin + BURST, label % CHANNELS] += burst * (-1) ** (label // CHANNELS)
        recordings.append(values.astype(np.float32))
    return recordings, labels
