"""Bringing sequences of words and of features to a length."""

import numpy as np
import pytest

from skiprnn_plugin.data.fit import Fit

PAD = 1


@pytest.mark.parametrize("width", [None, 2], ids=["words", "features"])
@pytest.mark.parametrize(
    "length, crop, pad_side, padding, long, short",
    [
        (3, "head", "left", "data", [5, 6, 7], [PAD, PAD, 8]),
        (3, "head", "right", "data", [5, 6, 7], [8, PAD, PAD]),
        (3, "tail", "left", "data", [6, 7, 8], [PAD, PAD, 8]),
        (3, "tail", "right", "data", [6, 7, 8], [8, PAD, PAD]),
        (3, "head", "left", "masked", [5, 6, 7], [8]),
        (3, "tail", "right", "masked", [6, 7, 8], [8]),
        (None, "tail", "left", "data", [5, 6, 7, 8], [8]),
    ],
)
def test_fit(length, crop, pad_side, padding, long, short, width):
    def sequence(numbers):
        words = np.array(numbers, dtype=np.int64)
        return words if width is None else np.repeat(words[:, None], width, axis=1)

    fit = Fit(length, crop, pad_side, padding, PAD)
    nothing = [] if padding == "masked" or length is None else [PAD] * 3
    expected = [long, short, [5, 6, 7], nothing]
    for given, wanted in zip(([5, 6, 7, 8], [8], [5, 6, 7], []), expected):
        np.testing.assert_array_equal(fit(sequence(given)), sequence(wanted))
    assert fit.sizes(np.array([4, 1, 3, 0])).tolist() == list(map(len, expected))
