"""Which runs make a line of a report, and what it warns of."""

from pathlib import Path

import pytest

from skiprnn_plugin.runs.groups import find_faults, group_runs
from skiprnn_plugin.runs.run import Run
from skiprnn_plugin.runs.tables import TABLES

ADDING = TABLES["adding"]
OPTIONS = {"task": "adding", "arch": "skip_gru", "cell": "gru", "update_rule": "learned", "cost_per_sample": 1e-5}


def group(*changes):
    runs = [Run(Path("log"), {**OPTIONS, "budget": "per_sample", **change}, {}, None) for change in changes]
    return [found for found in group_runs(runs, ADDING) if found.runs]


def test_runs_of_two_tasks_are_two_lines():
    """In a table that was asked for by its name, to whose task they do not belong."""
    found = group({"task": "first"}, {"task": "second"}, {"task": "first"})
    assert [(line.label, line.row, len(line.runs)) for line in found] == [
        ("Skip GRU, lambda=1e-5", None, 2),
        ("Skip GRU, lambda=1e-5", None, 1),
    ]


@pytest.mark.parametrize("cost, departs", [(1e-5, True), (1e-3, False)])
def test_only_a_run_that_repeats_a_row_departs_from_the_paper(cost, departs):
    (line,) = group({"cost_per_sample": cost, "hidden_size": 8})
    expected = [f"{line.label}: the paper has hidden_size 110, the run has 8"] if departs else []
    assert list(find_faults([line], ADDING, ())) == expected
