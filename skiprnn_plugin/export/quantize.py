"""Recurrent weights as 8-bit integers, rounded as the native engine's library rounds them."""

from typing import Tuple

import numpy as np

LARGEST_WEIGHT, LARGEST_STATE, LARGEST_SUM = 127, 2**15 - 1, 2**31 - 1


def quantize_rows(weight: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """A float32 matrix [N, H] as integers and scales: row n is about ``scales[n] * rows[n]``.

    Returns:
        rows: int8 [N, H], from -127 to 127.
        scales: float32 [N]; 0 for a row of zeros, or of numbers next to 0 in float32.
    """
    scales = np.abs(weight).max(1).astype(np.float32) / np.float32(LARGEST_WEIGHT)
    scales[scales < np.finfo(np.float32).tiny] = 0
    divisors = np.where(scales > 0, scales, np.float32(np.inf))[:, None]
    return np.rint(weight.astype(np.float32) / divisors).astype(np.int8), scales


def largest_state(hidden_size: int) -> int:
    """The largest integer that a state of this size is rounded to, so that no sum of products overflows 32 bits."""
    return min(LARGEST_STATE, LARGEST_SUM // (LARGEST_WEIGHT * hidden_size))
