"""Made-up recordings for the tests of the estimators."""

import numpy as np

NAMES = np.array(["run", "sit", "walk"])


def make_recordings(size, seed, labels=NAMES):
    """Noise of 30 to 60 samples of 3 numbers, one of which is high for a while; which one it is shows the class."""
    rng, recordings = np.random.default_rng(seed), []
    for number in range(size):
        recording = 0.3 * rng.normal(size=(rng.integers(30, 61), 3))
        start = rng.integers(0, len(recording) - 8)
        recording[start : start + 8, number % 3] += 2
        recordings.append(recording)
    return recordings, np.resize(labels, size)
