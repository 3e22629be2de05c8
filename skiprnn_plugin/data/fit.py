"""Bringing sequences to a length."""

from dataclasses import dataclass
from typing import Optional

import numpy as np


@dataclass(frozen=True)
class Fit:
    """Brings sequences, of token ids [T] or of features [T, D], to a length.

    Attributes:
        length: the most steps that a sequence keeps; with ``padding`` "data", the exact number. None keeps all.
        crop: which end of a longer sequence stays, "head" or "tail".
        pad_side: the side on which a shorter sequence is padded, "left" or "right".
        padding: "data": shorter sequences are padded, and padding is input like any other; "masked": they stay short.
        filling: the value that padding has: the token id of the padding symbol, or 0 for features.
    """

    length: Optional[int]
    crop: str = "head"
    pad_side: str = "right"
    padding: str = "data"
    filling: int = 0

    def __call__(self, sequence: np.ndarray) -> np.ndarray:
        return self.padded(self.cropped(sequence))

    def cropped(self, sequence: np.ndarray) -> np.ndarray:
        kept = self.kept(len(sequence))
        return sequence[kept.start : kept.stop]

    def kept(self, length: int) -> range:
        """Which elements stay of a sequence with this many."""
        missing = 0 if self.length is None else max(length - self.length, 0)
        return range(length - missing) if self.crop == "head" else range(missing, length)

    def padded(self, sequence: np.ndarray) -> np.ndarray:
        if self.length is None or self.padding == "masked":
            return sequence
        missing = self.length - len(sequence)
        sides = (missing, 0) if self.pad_side == "left" else (0, missing)
        return np.pad(sequence, [sides, *[(0, 0)] * (sequence.ndim - 1)], constant_values=self.filling)

    def sizes(self, lengths: np.ndarray) -> np.ndarray:
        """How many steps sequences of these lengths have afterwards, [N]."""
        if self.length is None:
            return lengths
        return np.minimum(lengths, self.length) if self.padding == "masked" else np.full_like(lengths, self.length)
