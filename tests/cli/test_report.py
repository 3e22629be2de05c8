"""``skiprnn-report`` on runs that fairseq has just made."""

import json
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
from fairseq.dataclass.constants import ChoiceEnum
from omegaconf import OmegaConf

from skiprnn_plugin.cli.report import as_markdown, main
from skiprnn_plugin.runs.groups import Group
from skiprnn_plugin.runs.rows import describe, find_row
from skiprnn_plugin.runs.run import Run
from skiprnn_plugin.runs.saved import as_plain
from skiprnn_plugin.runs.tables import TABLES

from ..command_line import ROOT, run
from .test_tables import ADDING

METRICS = ("loss", "task_loss", "budget_loss", "mse", "solved", "updates", "updates_std", "update_fraction", "flops")
LOG_DIGITS = 1e-5  # relative: fairseq logs six digits


def table_cells(markdown):
    """The table's lines as lists of cells, without the rule under its head."""
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    head, _, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return head, body


def cells(markdown):
    """As ``table_cells``, of a report, without its last column, training updates."""
    head, body = table_cells(markdown)
    assert head.pop() == "training updates"
    return head, [line[:-1] for line in body]


def report_json(prints, *arguments):
    return json.loads(prints(main, *arguments, "--json"))


def agree(a, b, names=METRICS):
    return {name: a[name] for name in names} == pytest.approx({name: b[name] for name in names}, rel=LOG_DIGITS)


def test_checkpoint_and_log_give_fairseqs_own_numbers(prints, tiny):
    seed1 = tiny["seed1"]
    (group,) = report_json(prints, seed1.save_dir, seed1.log)
    from_checkpoint, from_log = group["runs"]
    assert from_checkpoint["path"] == str(seed1.checkpoint) and from_log["path"] == str(seed1.log)
    assert from_checkpoint["sequences"] == from_log["sequences"] == 36
    assert agree(from_log["metrics"], seed1.logged)
    assert agree(from_checkpoint["metrics"], seed1.logged)
    assert 0 < from_checkpoint["metrics"]["update_fraction"] < 1  # so that it is worth comparing


def test_options_that_json_can_not_hold():
    options = {
        "of omegaconf": OmegaConf.create({"betas": [0.9, {"x": 1}]}),
        "of argparse": Namespace(betas=(0.9, 0.98)),
        "of fairseq": ChoiceEnum(["none", "truncate"]).truncate,
        "of pathlib": Path("data"),
    }
    assert json.loads(json.dumps(options, default=as_plain)) == {
        "of omegaconf": {"betas": [0.9, {"x": 1}]},
        "of argparse": {"betas": [0.9, 0.98]},
        "of fairseq": "truncate",
        "of pathlib": "data",
    }


def test_a_log_that_begins_within_a_line(prints, tiny, tmp_path):
    """As after ``tail -c``: what is left of the line is no validation."""
    log = tmp_path / "train.log"
    log.write_text('0.5", "valid_loss": "0.7", "valid_num_updates": "2"}\n' + tiny["seed1"].log.read_text())
    (group,) = report_json(prints, log)
    assert agree(group["runs"][0]["metrics"], tiny["seed1"].logged)


def test_test_split(prints, tiny):
    seed1 = tiny["seed1"]
    (group,) = report_json(prints, seed1.checkpoint, seed1.log, "--split", "test")
    assert group["split"] == "test"
    assert all(agree(run["metrics"], seed1.logged_test) for run in group["runs"])
    assert not agree(seed1.logged, seed1.logged_test, ["mse"])


def test_spread_over_seeds(prints, tiny):
    runs = [tiny["seed1"], tiny["seed2"]]
    (group,) = report_json(prints, *(r.save_dir for r in runs))
    assert (group["row"], group["label"]) == ("skip-gru-1e-5", "Skip GRU, lambda=1e-5")
    for name in ("mse", "update_fraction", "flops", "solved"):
        values = [r.logged[name] for r in runs]
        assert group["mean"][name] == pytest.approx(np.mean(values), rel=LOG_DIGITS)
        # the difference of two numbers of six digits
        assert group["std"][name] == pytest.approx(np.std(values, ddof=1), abs=LOG_DIGITS * max(values))
    assert group["std"]["update_fraction"] > 0.001

    markdown = prints(main, *(r.save_dir for r in runs))
    head, ((label, *paper, solved, updates, flops, mse, count),) = cells(markdown)
    assert head[:4] == ["model", "solved (paper)", "samples used (paper)", "FLOPs (paper)"]
    assert head[4:] == ["solved", "samples used", "FLOPs", "MSE", "runs"]
    assert (label, *paper) == ("Skip GRU, lambda=1e-5", "Yes", "50.7% ± 2.6%", "9.40e5")
    fractions = 100 * np.array([r.logged["update_fraction"] for r in runs])
    assert updates == f"{fractions.mean():.1f}% ± {fractions.std(ddof=1):.1f}%"
    assert (solved, count) == ("0/2", "2")
    assert float(flops) == pytest.approx(np.mean([r.logged["flops"] for r in runs]), rel=0.005) and "e+" not in flops
    assert float(mse) == pytest.approx(np.mean([r.logged["mse"] for r in runs]), rel=0.005)
    assert markdown.endswith(
        "±: sample standard deviation over runs (the paper's: over four runs). Held-out split: valid, 36 sequences.\n"
    )


@pytest.mark.parametrize("trained, shown", [([], "-"), ([60000], "60,000"), ([6, 4, 5], "4 to 6"), ([7, 7], "7")])
def test_training_updates(trained, shown):
    runs = [Run("log", {"num_updates": updates}, {}, 10) for updates in trained]
    markdown = as_markdown([Group("LSTM", TABLES["adding"].rows[0], runs)], TABLES["adding"], "valid")
    assert markdown.splitlines()[2].endswith(f"| {len(runs) or '-'} | {shown} |")


def test_saved_report_stands_for_its_runs(prints, tiny, tmp_path):
    """Alone, beside further runs, and after their checkpoints have gone."""
    saved = tmp_path / "saved.json"
    seed1, seed2, other = (tiny[name].checkpoint for name in ("seed1", "seed2", "other"))
    saved.write_text(prints(main, seed1, other, "--json"))
    assert prints(main, saved) == prints(main, seed1, other)
    assert prints(main, saved, seed2) == prints(main, seed1, other, seed2)
    assert prints(main, saved, "--json") == saved.read_text()
    (gru, *_) = json.loads(saved.read_text())
    assert gru["runs"][0]["options"]["seed"] == 1 and not any("_dir" in name for name in gru["runs"][0]["options"])


def test_one_run_has_no_spread(prints, tiny):
    (group,) = report_json(prints, tiny["seed1"].log)
    assert set(group["std"].values()) == {None}
    _, ((*_, solved, updates, _flops, _mse, count),) = cells(prints(main, tiny["seed1"].log))
    assert (solved, updates, count) == ("No", f"{tiny['seed1'].logged['update_fraction']:.1%}", "1")


def test_all_rows(prints, tiny):
    arguments = (tiny["seed1"].log, tiny["other"].log, "--all")
    _, body = cells(prints(main, *arguments))
    assert [[line[0], *line[1:4]] for line in body[:10]] == [[label, *paper] for label, _, *paper in ADDING]
    assert all(line[4:] == ["-"] * 5 for line in body[:9])
    assert "-" not in body[9][4:]
    assert [line[0] for line in body[10:]] == ["LSTM (p_skip = 0.3)"]
    groups = report_json(prints, *arguments)
    assert [len(group["runs"]) for group in groups] == [0] * 9 + [1, 1]
    assert set(groups[0]["mean"].values()) == {None}


def test_a_run_that_the_paper_has_not(prints, tiny):
    (group,) = report_json(prints, tiny["other"].save_dir)
    assert (group["row"], group["label"], group["paper"]) == (None, "LSTM (p_skip = 0.3)", {})
    assert agree(group["runs"][0]["metrics"], tiny["other"].logged)
    _, ((_, *paper, _solved, updates, _flops, _mse, _count),) = cells(prints(main, tiny["other"].save_dir))
    assert paper == ["-"] * 3 and updates.endswith("%")


@pytest.mark.parametrize(
    "options, row, label",
    [
        ({"update_rule": "full", "cost_per_sample": 1e-3}, "gru", "GRU"),
        ({"update_rule": "random", "skip_prob": 0.1 + 0.4}, "gru-skip-0.5", "GRU (p_skip = 0.5)"),
        ({"update_rule": "random", "skip_prob": 0.2}, None, "GRU (p_skip = 0.2)"),
        ({"cell": "lstm", "cost_per_sample": 0.0}, "skip-lstm-0", "Skip LSTM, lambda=0"),
        ({"cost_per_sample": 1.0000000001e-5}, "skip-gru-1e-5", "Skip GRU, lambda=1e-5"),
        ({"cost_per_sample": 1.1e-5}, None, "Skip GRU, lambda=1.1e-5"),
        ({"budget": "l2", "target_updates": 25.0}, None, "Skip GRU, lambda=1e-5, l2 to 25"),
        ({"target_fraction": 0.5}, None, "Skip GRU, target 0.5"),
        ({"update_rule": "full", "target_fraction": 0.5}, "gru", "GRU"),
        ({"target_fraction": None}, "skip-gru-1e-5", "Skip GRU, lambda=1e-5"),
        ({"task": "other"}, None, "Skip GRU, lambda=1e-5"),
        ({"cell": "mine", "update_rule": None}, None, "skip_gru"),
    ],
)
def test_rows_by_options(options, row, label):
    trained = {"task": "adding", "arch": "skip_gru", "cell": "gru", "update_rule": "learned", "skip_prob": 0.5}
    trained = {**trained, "budget": "per_sample", "cost_per_sample": 1e-5, **options}
    found = find_row(TABLES["adding"], trained)
    assert (found and found.name, describe(trained)) == (row, label)


@pytest.mark.parametrize(
    "solved, fractions, expected",
    [
        ([1.0], [0.5], ["Yes", "50.0%"]),
        ([1.0] * 4, [0.5] * 4, ["4/4", "50.0% ± 0.0%"]),
        ([1.0, 1.0, 0.0, 1.0], [0.5, 0.6, 0.7, 0.8], ["3/4", "65.0% ± 12.9%"]),
        ([0.0], [float("nan")], ["No", "nan%"]),
        ([1.0, 1.0], [None, 0.5], ["2/2", "-"]),
    ],
)
def test_formats(solved, fractions, expected):
    metrics = [{"solved": s, "update_fraction": f, "flops": 2464000.0} for s, f in zip(solved, fractions)]
    table = TABLES["adding"]
    runs = [Run("log", {}, {name: v for name, v in m.items() if v is not None}, 10) for m in metrics]
    _, (line,) = cells(as_markdown([Group("LSTM", table.rows[0], runs)], table, "valid"))
    assert line[4:] == [*expected, "2.46e6", "-", str(len(runs))]


def test_says_where_runs_are_no_repetitions(capsys, tiny, tmp_path):
    wider = tmp_path / "wider.log"
    wider.write_text(tiny["seed1"].log.read_text().replace("'hidden_size': 8", "'hidden_size': 9"))
    assert main([str(tiny["seed1"].checkpoint), str(wider)]) == 0
    label, program = "Skip GRU, lambda=1e-5", "skiprnn-report: warning"
    assert capsys.readouterr().err.splitlines() == [
        f"{program}: {label}: runs differ in hidden_size",
        f"{program}: {label}: runs share a seed",
        f"{program}: {label}: the paper has hidden_size 110, the run has 8",
        f"{program}: {label}: the paper has gru_reset before, the run has after",
        f"{program}: {label}: the paper has update_bias 1, the run has -1",
        f"{program}: {label}: the paper has batch_size 256, the run has 16",
        f"{program}: {label}: the paper has sequence_length 50, the run has 12",
    ]


@pytest.mark.parametrize(
    "name, old, paper, ours",
    [
        ("criterion", "'_name': 'mse_with_budget'", "mse_with_budget", "with_budget"),
        ("zoneout", "'zoneout': 0.0", "0", "0.1"),
        ("recurrent_dropout", "'recurrent_dropout': 0.0", "0", "0.1"),
        ("cost_warmup_updates", "'cost_warmup_updates': 0", "0", "5"),
    ],
)
def test_says_where_training_is_not_the_papers(capsys, tiny, tmp_path, name, old, paper, ours):
    log = tmp_path / "other.log"
    text = tiny["seed1"].log.read_text()
    assert old in text
    log.write_text(text.replace(old, old.rsplit(" ", 1)[0] + f" {ours if ours[0].isdigit() else repr(ours)}"))
    assert main([str(log)]) == 0
    assert f": the paper has {name} {paper}, the run has {ours}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "old, new, name",
    [
        ("'lr': [0.0001]", "'lr': [0.01]", "lr"),
        ("'clip_norm': 1.0", "'clip_norm': 0.0", "clip_norm"),
        ("'binarize': 'round'", "'binarize': 'bernoulli'", "binarize"),
        ('"valid_num_updates": "4"', '"valid_num_updates": "12"', "num_updates"),
    ],
    ids=["lr", "clip-norm", "binarize", "num-updates"],
)
def test_says_which_setting_differs(capsys, tiny, tmp_path, old, new, name):
    log = tmp_path / "other.log"
    text = tiny["seed1"].log.read_text().replace("'seed': 1", "'seed': 7")
    assert old in text
    log.write_text(text.replace(old, new))
    assert main([str(tiny["seed1"].checkpoint), str(log)]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith(f"runs differ in {name}") and "differ" not in lines[1]


def test_captured_output_is_a_log_too(prints, tiny, tmp_path):
    captured = tmp_path / "output.txt"
    prefix = "2026-01-01 00:00:00 | INFO | valid | "
    captured.write_text("".join(prefix + line for line in tiny["seed1"].log.read_text().splitlines(True)))
    ours, original = (report_json(prints, path)[0] for path in (captured, tiny["seed1"].log))
    assert ours["mean"] == original["mean"] and ours["row"] == "skip-gru-1e-5"


def test_last_validation_counts(prints, tiny, tmp_path):
    """Also in the log of a run that is still going, or was killed while it wrote."""
    log = tmp_path / "train.log"
    line = next(line for line in tiny["seed1"].log.read_text().splitlines(True) if '"valid_loss"' in line)
    later = json.dumps({**json.loads(line), "valid_mse": "0.125"})
    log.write_text(tiny["seed1"].log.read_text() + later + "\n" + later[: len(later) // 2])
    assert report_json(prints, log)[0]["mean"]["mse"] == 0.125


def test_save_dir_without_a_checkpoint_is_its_log(prints, tiny, tmp_path):
    (tmp_path / "train.log").write_text(tiny["seed1"].log.read_text())
    assert report_json(prints, tmp_path)[0]["runs"][0]["path"] == str(tmp_path / "train.log")


@pytest.mark.thorough
def test_standard_output_holds_the_table_alone(tiny):
    """In a process of its own, where fairseq and all it needs are imported afresh."""
    process = run(sys.executable, "-m", "skiprnn_plugin.cli.report", tiny["seed1"].save_dir, PYTHONPATH=ROOT)
    first, *_, last = process.stdout.splitlines()
    assert process.returncode == 0 and first.startswith("| model |") and last.startswith("±"), process.stderr
    lines = process.stderr.splitlines()
    assert lines and all(line.startswith("skiprnn-report: warning: ") for line in lines)
