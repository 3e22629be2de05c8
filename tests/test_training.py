"""Which checkpoint of a training is kept."""

import math

import pytest

from skiprnn_plugin.training import accuracy_deviation, choose_checkpoint


@pytest.mark.parametrize("used, expected", [(0.6, 0), (0.61, 1)])
def test_the_target_is_reached_within_a_fifth(used, expected):
    history = [{"accuracy": 0.9, "update_fraction": used}, {"accuracy": 0.89, "update_fraction": 0.4}]
    assert choose_checkpoint("classes", 0.5)(history, 100) == expected


def test_the_standard_error_of_an_accuracy_counts_four_more_sequences():
    assert accuracy_deviation(1.0, 4) == pytest.approx(math.sqrt(0.75 * 0.25 / 8))
