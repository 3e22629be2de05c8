"""Numbers to predict, as labels of a manifest."""

import numpy as np
import pytest

import skiprnn_plugin  # noqa: F401
from skiprnn_plugin.data.targets import find_missing, measure_targets, parse_target, write_target


def test_numbers_are_read_as_they_were_written():
    numbers = [1 / 3, 1e5 + 1 / 7, -2.0]
    assert parse_target(write_target(numbers)) == numbers


@pytest.mark.parametrize("label", ["1_000.5", "0,5", "up", "1 nan", "inf", ""])
def test_labels_that_are_no_numbers(label):
    assert parse_target(label) is None


@pytest.mark.parametrize(
    "labels, missing",
    [
        (["0.5", "1.5", "n/a", "n/a"], 2),
        (["0.5", "n/a", "n/a"], None),  # classes
        (["0.5", "1.5"], None),
    ],
)
def test_a_label_is_missing_where_at_least_half_are_numbers(labels, missing):
    assert find_missing(labels) == missing


def test_the_deviation_is_that_of_the_numbers_given():
    """Divided by their count, not by one less."""
    mean, std = measure_targets(np.array([[1.0, 0.0], [3.0, 0.0]]))
    assert mean.tolist() == [2, 0] and std.tolist() == [1, 0]
