"""The number of skipped steps after an update, as a table of update probabilities: exact wherever numbers can be
compared, without the repeated additions that define it."""

import numpy as np

SKIPS = 1024  # the most skipped steps in the table


def longest_waits(threshold: float, skips: int = SKIPS) -> np.ndarray:
    """The largest update probability that skips k steps or more after an update, for k = 1 to ``skips``, float32.

    After an update, acc = 0, and every skipped step adds p in float32. A step is skipped while the sum does not exceed
    the ``threshold`` (below 1). Rounded addition is monotonic, so the sum of k additions grows with p. The number of
    skipped steps is therefore the number of entries that are at least p.
    """
    limit = np.float32(threshold)
    count = np.arange(1, skips + 1)
    # k roundings change the sum by less than k / 2 units in the last place of the threshold: the bounds are safe
    slack = 1 + (count + 4) * 2.0**-23
    low = _as_bits(np.maximum(limit / count / slack, 0).astype(np.float32))
    high = _as_bits((limit / count * slack).astype(np.float32)) + 1
    while np.any(high - low > 1):
        middle = (low + high) // 2
        skipped = _add_up(middle.view(np.float32)) <= limit
        low, high = np.where(skipped, middle, low), np.where(skipped, high, middle)
    return low.view(np.float32)


def _as_bits(values: np.ndarray) -> np.ndarray:
    return values.view(np.int32)


def _add_up(p: np.ndarray) -> np.ndarray:
    """The sum of k additions of the k-th number, for k = 1 to the number of numbers."""
    total = np.zeros_like(p)
    for skipped in range(len(p)):
        total[skipped:] += p[skipped:]
    return total
