"""How the sequences of a class are divided."""

import pytest

from skiprnn_plugin.prepare.splits import divide_classes

FRACTIONS = {"test": 0.2, "valid": 0.2}


@pytest.mark.parametrize("size, held_out", [(1, 0), (2, 0), (3, 1), (10, 2)])
def test_a_class_that_is_large_enough_is_in_every_split(size, held_out):
    splits = divide_classes(["a"] * size, FRACTIONS, 0)
    assert (splits.count("test"), splits.count("valid")) == (held_out, held_out)


def test_the_order_of_the_classes_does_not_count():
    """Each class is drawn from the same random numbers, whichever comes first in the data."""
    labels = ["b"] * 10 + ["a"] * 10
    splits = divide_classes(labels, FRACTIONS, 0)
    assert divide_classes(labels[::-1], FRACTIONS, 0) == splits[10:] + splits[:10]
