"""``skiprnn-report`` over several tables, and where tables differ: in split, in kind of spread, in what is cited."""

import json
import sys

import pytest

from skiprnn_plugin.cli.report import as_markdown, main
from skiprnn_plugin.runs.groups import Group
from skiprnn_plugin.runs.run import Run
from skiprnn_plugin.runs.saved import as_saved
from skiprnn_plugin.runs.tables import TABLES

from .. import command_line
from .test_report import cells, report_json


def sections(markdown):
    """Label and number of runs of each line, by the heading of its table."""
    parts = markdown.split("## ")
    assert parts[0] == ""
    return {part.split("\n")[0]: [(line[0], line[-1]) for line in cells(part)[1]] for part in parts[1:]}


@pytest.fixture
def mnist_log(tiny_frequency, tmp_path):
    """A log as sequential MNIST writes it, with validations of the splits valid and test."""
    lines = (
        tiny_frequency["1"]
        .log.read_text()
        .replace("'_name': 'frequency_discrimination'", "'_name': 'sequential_mnist'")
    )
    for old, new in (
        ("'sampling_period': 1.0", "'rows': False, 'permuted': False"),
        ("'valid_size': 36, 'valid_seed': 0", "'valid_size': 36"),
    ):
        assert old in lines
        lines = lines.replace(old, new)
    path = tmp_path / "mnist.log"
    path.write_text(lines)
    return path


def test_runs_of_several_tables(prints, tiny, tiny_frequency):
    logs = [tiny_frequency["0.5"].log, tiny["seed2"].log, tiny_frequency["1"].log, tiny["seed1"].log]
    assert sections(prints(main, *logs)) == {
        "Adding task": [("Skip GRU, lambda=1e-5", "2")],
        "Frequency discrimination, sampled every 1 ms": [("Skip GRU, lambda=1e-4", "1")],
        "Frequency discrimination, sampled every 0.5 ms": [("Skip GRU, lambda=1e-4", "1")],
    }
    groups = report_json(prints, *logs)
    assert [(group["table"], len(group["runs"])) for group in groups] == [
        ("adding", 2), ("frequency-1ms", 1), ("frequency-0.5ms", 1)
    ]  # fmt: skip
    whole = sections(prints(main, *logs, "--all"))
    assert [len(lines) for lines in whole.values()] == [10, 8, 8]


def test_every_table(prints, tiny):
    every = sections(prints(main))
    assert list(every) == [table.title for table in TABLES.values()]
    for table in TABLES.values():
        assert every[table.title] == [(row.label, "-") for row in (*table.rows, *table.cited)]
    assert sections(prints(main, "--table", "all")) == every
    with_run = sections(prints(main, tiny["seed1"].log, "--table", "all"))
    assert with_run.pop("Adding task")[-1] == ("Skip GRU, lambda=1e-5", "1") and every.pop("Adding task")
    assert with_run == every
    groups = json.loads(prints(main, "--json"))
    assert len(groups) == 84 and not any(group["runs"] for group in groups)
    assert [(group["row"], group["paper"]) for group in groups if group["table"] == "ucf101"][-1] == (
        "cited-two-stream-i3d", {"accuracy": "0.934"}
    )  # fmt: skip


def test_a_reader_that_has_seen_enough():
    command = f"set -o pipefail; {sys.executable} -m skiprnn_plugin.cli.report | true"
    process = command_line.run("bash", "-c", command, PYTHONPATH=command_line.ROOT)
    assert (process.returncode, process.stderr) == (0, "")


def test_one_table_without_runs(prints):
    markdown = prints(main, "--table", "mnist")
    _, body = cells(markdown)
    assert len(body) == 12 and body[-1] == ["BN-LSTM (cited)", "0.990", "784.00", *"-----"]
    assert markdown.endswith("Held-out split: test, no runs.\n")


def test_the_split_is_that_of_the_table(prints, fails, mnist_log, tiny_frequency):
    run = tiny_frequency["1"]
    assert run.logged["loss"] != run.logged_test["loss"]
    for options, split, logged in (((), "test", run.logged_test), (("--split", "valid"), "valid", run.logged)):
        (group,) = report_json(prints, mnist_log, *options)
        assert (group["table"], group["row"], group["split"]) == ("mnist", "skip-gru-1e-4", split)
        assert group["runs"][0]["metrics"]["loss"] == logged["loss"]
        assert group["runs"][0]["sequences"] is None  # of a stored set a log does not tell
    assert prints(main, mnist_log).endswith("Held-out split: test, an unknown number of sequences.\n")
    mnist_log.write_text("".join(line for line in mnist_log.open() if '"test_loss"' not in line))
    assert f"{mnist_log}: no validation of split 'test' in this log" in fails(main, mnist_log)


def test_a_task_without_a_table_has_a_plain_one(prints, tiny, tmp_path):
    mine = tmp_path / "mine.log"
    mine.write_text(tiny["seed1"].log.read_text().replace("'_name': 'adding'", "'_name': 'mine'"))
    head, (line,) = cells(prints(main, mine))
    logged = tiny["seed1"].logged
    assert head == ["model", "mse", "solved", "loss", "task_loss", "samples used", "samples used per sequence", "runs"]
    assert line == [
        "Skip GRU, λ=1e-5",
        *(f"{logged['mse']:.4g}", "No"),
        *(f"{logged[name]:.4g}" for name in ("loss", "task_loss")),
        *(f"{logged['update_fraction']:.1%}", f"{logged['updates']:.1f}", "1"),
    ]
    # beside a table of the paper; and saved, it can be reported again
    runs = [mine, tiny["seed1"].log, tiny["other"].log]
    both = prints(main, *runs)
    assert [(title, len(lines)) for title, lines in sections(both).items()] == [("Adding task", 2), ("mine", 1)]
    saved = tmp_path / "saved.json"
    saved.write_text(prints(main, *runs, "--json"))
    assert prints(main, saved) == both


def test_a_plain_table_has_a_line_for_every_model(prints, capsys, tiny, tmp_path):
    def log(name, run, *changes):
        text = tiny[run].log.read_text().replace("'_name': 'adding'", "'_name': 'mine'")
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / name).write_text(text)
        return tmp_path / name

    wider = ("'hidden_size': 8", "'hidden_size': 9")
    logs = [log("a.log", "seed1"), log("b.log", "seed2"), log("c.log", "seed1", wider), log("d.log", "other")]
    assert main([str(path) for path in logs]) == 0
    captured = capsys.readouterr()
    assert captured.err == "" and [(line[0], line[-1]) for line in cells(captured.out)[1]] == [
        ("Skip GRU, hidden size 8, λ=1e-5", "2"),
        ("Skip GRU, hidden size 9, λ=1e-5", "1"),
        ("LSTM, random skips, p=0.3", "1"),
    ]


def test_other_pixels_are_another_experiment(prints, mnist_log):
    mnist_log.write_text(mnist_log.read_text().replace("'permuted': False", "'permuted': True"))
    (group,) = report_json(prints, mnist_log)
    assert group["table"] == "sequential_mnist with rows False and permuted True" and group["split"] == "test"


@pytest.mark.parametrize("table, row", [("ucf101", "skip-gru-1e-4"), ("charades", "skip-gru-1e-3")])
def test_videos_of_ones_own_are_not_the_papers(prints, tmp_path, table, row):
    """Whose features another encoder made, if one did."""
    table, saved = TABLES[table], tmp_path / "saved.json"
    (row,) = (candidate for candidate in table.rows if candidate.name == row)
    trained = {"task": table.task, "criterion": "mine", **row.options, "cell": "gru", "update_rule": "learned"}
    trained["budget"] = "per_sample"

    def save(**options):
        run = {"path": "x", "sequences": 9, "options": {**trained, **table.condition, **options}, "metrics": {}}
        saved.write_text(json.dumps([{"split": "valid", "runs": [run]}]))

    save(**table.data)
    assert [group["row"] for group in report_json(prints, saved)] == [row.name]
    save(encoder_flops=0.0)
    (group,) = report_json(prints, saved)
    assert (group["row"], group["paper"]) == (None, {}) and group["table"].endswith("encoder_flops 0")
    (group,) = report_json(prints, saved, "--table", table.name)
    assert (group["label"], group["paper"]) == (f"{row.label}, encoder_flops 0", {})


def test_a_spread_over_videos():
    table = TABLES["charades"]
    metrics = [{"mAP": 0.08, "updates": 40.0, "updates_std": 11.0}, {"mAP": 0.09, "updates": 44.0, "updates_std": 14.0}]
    group = Group("LSTM", table.rows[5], [Run("log", {}, {**numbers, "wps": 9.0}, None) for numbers in metrics])
    markdown = as_markdown([group], table, "valid")
    head, (line,) = cells(markdown)
    assert head[4:] == ["mAP", "samples used ± over sequences", "FLOPs", "runs"]
    assert line[1:] == ["8.32%", "41.9 ± 11.3", "6.41e11", "8.50% ± 0.71%", "42.0 ± 12.5", "-", "2"]
    note = "over runs, of samples used standard deviation over sequences (the paper's: of updates, over videos)"
    assert note in markdown
    values = as_saved(group, table, "valid")
    assert values["mean"] == {"mAP": pytest.approx(0.085), "updates": 42.0, "updates_std": 12.5, "flops": None}
    assert values["std"]["updates"] == pytest.approx(8**0.5)
    assert [run["metrics"] for run in values["runs"]] == metrics  # without the machine's speed


def test_the_best_checkpoint(prints, fails, capsys, tiny, tmp_path):
    (tmp_path / "checkpoint_last.pt").write_bytes(tiny["seed1"].checkpoint.read_bytes())
    assert f"{tmp_path}: holds no checkpoint_best.pt" in fails(main, tmp_path, "--checkpoint", "best")
    (tmp_path / "checkpoint_best.pt").write_bytes(tiny["seed2"].checkpoint.read_bytes())
    for name, run in (("last", tiny["seed1"]), ("best", tiny["seed2"])):
        (group,) = report_json(prints, tmp_path, "--checkpoint", name)
        assert group["runs"][0]["path"] == str(tmp_path / f"checkpoint_{name}.pt")
        assert group["mean"]["mse"] == pytest.approx(run.logged["mse"], rel=1e-5)


def test_best_checkpoints_are_of_any_update(capsys, tiny, tmp_path):
    other = tmp_path / "other.log"
    other.write_text(tiny["seed2"].log.read_text().replace('"valid_num_updates": "4"', '"valid_num_updates": "2"'))
    for options, warned in (([], True), (["--checkpoint", "best"], False)):
        assert main([str(tiny["seed1"].log), str(other), *options]) == 0
        assert ("runs differ in num_updates" in capsys.readouterr().err) == warned
