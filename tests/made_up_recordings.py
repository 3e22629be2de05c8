"""Made-up sensor recordings: noise, in which a burst of a few steps shows the class.

python -m tests.made_up_recordings FILE.npz [RECORDINGS]     # RECORDINGS is their number, by default 180
"""

import argparse
from pathlib import Path
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.made_up_recordings", description=__doc__.splitlines()[0])
    parser.add_argument("file", metavar="FILE.npz", type=Path, help="the file to write, for skiprnn-train")
    parser.add_argument(
        "number", metavar="RECORDINGS", type=int, nargs="?", default=180, help="their number (default: %(default)s)"
    )
    args = parser.parse_args()
    recordings, labels = make_recordings(args.number)
    np.savez(args.file, *recordings, labels=np.array(["x", "y", "z"])[labels])
