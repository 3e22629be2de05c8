"""When each class is present, from probabilities at every step."""

import numpy as np
import pytest

from skiprnn_plugin.runs.outcomes import Span, find_class_spans


@pytest.mark.parametrize(
    "probabilities, expected",
    [
        ([[0.5], [0.25], [0.75], [1.0]], [Span(0, 0.5, 0, 1), Span(0, 1.0, 2, 4)]),
        ([[0, 0.75], [0.75, 0.5], [0.75, 0]], [Span(1, 0.75, 0, 2), Span(0, 0.75, 1, 3)]),
        ([[0.5, 0.5]], [Span(0, 0.5, 0, 1), Span(1, 0.5, 0, 1)]),
        ([[0.25], [0.25]], []),
    ],
    ids=["two of a class", "sorted by start", "one step", "none"],
)
def test_spans(probabilities, expected):
    assert find_class_spans(np.array(probabilities, dtype=np.float32), 0.5) == expected
