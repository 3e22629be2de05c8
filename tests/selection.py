"""Which of a test's combinations the quick tests run."""

import pytest


def quick_in(number, values):
    """Values of a parametrised test, or tuples of the values of several names, of which the quick tests run one in
    ``number``."""
    return [_param(value, n % number == 0) for n, value in enumerate(values)]


def quick_of(values, *quick):
    """As :func:`quick_in`, of which the quick tests run those that are named alone."""
    values = list(values)
    assert set(quick) <= set(values), f"{quick} of {values}"
    return [_param(value, value in quick) for value in values]


def _param(value, is_quick):
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=() if is_quick else pytest.mark.thorough)
