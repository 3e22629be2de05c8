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


@pytest.mark.parametrize(
    "options, faults",
    [
        ({"hidden_size": 8}, ["the paper has hidden_size 110, the run has 8"]),
        ({"hidden_size": 8, "cost_per_sample": 1e-3}, []),  # it repeats no row
        ({"gru_reset": "after"}, ["the paper has gru_reset before, the run has after"]),
        ({"gru_reset": "after", "cell": "lstm"}, []),
    ],
)
def test_where_a_run_departs_from_the_paper(options, faults):
    (line,) = group(options)
    assert list(find_faults([line], ADDING, ())) == [f"{line.label}: {fault}" for fault in faults]
