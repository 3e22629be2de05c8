"""Which runs repeat each other, and in what order a figure has them."""

from pathlib import Path

import pytest

from skiprnn_plugin.runs.run import DATA, Run
from skiprnn_plugin.runs.series import group_repeats, group_series, is_sweep

OPTIONS = {"task": "mine", "arch": "mine", "criterion": "mine", "cost_per_sample": 0.0}


def make(*changes):
    return [Run(Path("log"), {**OPTIONS, **change}, {}, None) for change in changes]


@pytest.mark.parametrize(
    "changes, expected",
    [
        ([{DATA: 1}, {DATA: 1, "seed": 2}], [2]),
        ([{DATA: 1}, {DATA: 2}], [1, 1]),
        ([{DATA: 1}, {}], [2]),  # a log, which does not tell the data
        ([{DATA: 1}, {DATA: 2}, {}], [3]),
    ],
    ids=str,
)
def test_runs_that_repeat_each_other(changes, expected):
    assert [len(repeats.runs) for repeats in group_repeats(make(*changes))] == expected


@pytest.mark.parametrize(
    "name, values, is_one",
    [
        ("update_threshold", [0.7, 0.3, 0.5], False),
        ("min_skip", [2, 0], False),
        ("max_skip", [None, 8, 2], False),  # no limit comes last
        ("max_skip", [8, 8], True),
    ],
)
def test_a_sweep_of_a_dial(name, values, is_one):
    runs = make(*({name: value} for value in values))
    assert is_sweep(runs) is not is_one
    (series,) = group_series(runs)
    expected = sorted({*values}, key=lambda value: float("inf") if value is None else value)
    assert [point[0].options[name] for point in series.points] == expected
