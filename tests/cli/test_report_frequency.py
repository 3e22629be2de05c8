"""``skiprnn-report`` where one task has several tables: each run is of the table of its sampling period."""

import json

import pytest

from skiprnn_plugin.cli.report import as_markdown, main
from skiprnn_plugin.runs.groups import Group
from skiprnn_plugin.runs.run import Run
from skiprnn_plugin.runs.tables import TABLES

from .test_report import agree, cells, report_json
from .test_tables import FREQUENCY

METRICS = ("loss", "task_loss", "budget_loss", "accuracy", "solved", "updates", "updates_std", "update_fraction")


@pytest.mark.parametrize("period", ["1", "0.5"])
def test_the_table_is_that_of_the_sampling_period(prints, tiny_frequency, period):
    run = tiny_frequency[period]
    (group,) = report_json(prints, run.save_dir, run.log)
    assert (group["table"], group["row"]) == (f"frequency-{period}ms", "skip-gru-1e-4")
    assert len(group["runs"]) == 2  # the checkpoint, evaluated again, and the log
    assert all(agree(read["metrics"], run.logged, METRICS) for read in group["runs"])

    head, ((label, *values, count),) = cells(prints(main, run.log))
    assert head == ["model", "solved (paper)", "samples used (paper)", "solved", "samples used", "accuracy", "runs"]
    assert (label, count) == ("Skip GRU, lambda=1e-4", "1")
    assert values[:2] == ["Yes", FREQUENCY[period][label]]
    assert values[2:] == ["No", f"{run.logged['updates']:.1f}", f"{run.logged['accuracy']:.3f}"]
    assert 1 < run.logged["updates"] < 12 / float(period)  # so that there is something to report


@pytest.mark.parametrize("period", ["1", "0.5"])
def test_all_rows(prints, tiny_frequency, period):
    _, body = cells(prints(main, tiny_frequency[period].log, "--all"))
    assert {line[0]: line[2] for line in body} == FREQUENCY[period]
    assert [line[3:] for line in body[:-1]] == [["-"] * 4] * 7


def test_counts_and_accuracies_have_a_spread():
    table = TABLES["frequency-1ms"]
    metrics = [
        {"solved": 1.0, "updates": 50.0, "accuracy": 0.992}, {"solved": 1.0, "updates": 60.25, "accuracy": 0.9961}
    ]  # fmt: skip
    group = Group("GRU", table.rows[4], [Run("log", {}, numbers, 10) for numbers in metrics])
    _, (line,) = cells(as_markdown([group], table, "valid"))
    assert line == ["GRU", "Yes", "100.0 ± 0.00", "2/2", "55.1 ± 7.2", "0.994 ± 0.003", "2"]


def test_a_sampling_period_without_a_table(prints, tiny_frequency):
    log = tiny_frequency["other"].log
    (group,) = report_json(prints, log)
    assert (group["table"], group["paper"]) == ("frequency_discrimination with sampling_period 0.25", {})
    _, (line,) = cells(prints(main, log, "--table", "frequency-1ms"))
    assert line[:3] == ["Skip GRU, lambda=1e-4, sampling_period 0.25", "-", "-"]


def test_runs_of_two_sampling_periods_never_share_a_row(prints, tiny_frequency):
    logs = [run.log for run in tiny_frequency.values()]
    groups = report_json(prints, *logs, "--table", "frequency-0.5ms")
    label = "Skip GRU, lambda=1e-4"
    assert [(group["row"], group["label"], [run["path"] for run in group["runs"]]) for group in groups] == [
        ("skip-gru-1e-4", label, [str(tiny_frequency["0.5"].log)]),
        (None, f"{label}, sampling_period 1", [str(tiny_frequency["1"].log)]),
        (None, f"{label}, sampling_period 0.25", [str(tiny_frequency["other"].log)]),
    ]


def test_says_where_a_run_is_no_repetition(capsys, tiny_frequency, tmp_path):
    log = tmp_path / "train.log"
    log.write_text(tiny_frequency["1"].log.read_text().replace("'min_period': 1.0", "'min_period': 0.0"))
    assert main([str(log), "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)[0]["row"] == "skip-gru-1e-4"
    assert [line.split(": ", 3)[-1] for line in captured.err.splitlines()] == [
        "the paper has hidden_size 110, the run has 8",
        "the paper has gru_reset before, the run has after",
        "the paper has update_bias 1, the run has -1",
        "the paper has batch_size 256, the run has 16",
        "the paper has sequence_duration 100, the run has 12",
        "the paper has min_period 1, the run has 0",
    ]
