"""Optimizers, schedulers, models and criterions that fairseq configures by argparse, in every command.

Their part of the configuration is an ``argparse.Namespace`` with every option of the run.
"""

import argparse
import logging

import numpy as np
import pytest

from skiprnn_plugin.cli.plot import main as plot
from skiprnn_plugin.cli.predict import main as predict
from skiprnn_plugin.cli.report import main as report
from skiprnn_plugin.hub import from_pretrained
from skiprnn_plugin.runs.checkpoint import load_checkpoint, read_runs
from skiprnn_plugin.runs.tables import plain
from skiprnn_plugin.tasks.options import check_training_options

from .. import command_line
from ..compare import logged
from ..own_tasks import by_argparse  # noqa: F401  (importing it registers a model and a criterion)

SGD = ("--optimizer", "sgd", "--momentum", 0.9)
OWN = (
    *("--arch", "own_by_argparse_warm", "--update-bias", -1),
    *("--criterion", "own_absolute_error", "--own-power", 1.5, "--cost-per-sample", 1e-3),
)
RUNS = {
    "optimizer and scheduler": ("--update-bias", -1, *SGD, "--lr-scheduler", "manual", "--update2lr", '{"3": 0.02}'),
    "model and criterion": OWN,
}
ADAM = ("--optimizer", "adam", "--lr", "1e-4", "--adam-eps", "1e-8")
WITHOUT_ADAM = command_line.TRAIN[: command_line.TRAIN.index("--optimizer")] + [
    *("--lr", "1e-2"),
    *command_line.TRAIN[command_line.TRAIN.index("--clip-norm") :],
]


@pytest.fixture(scope="module", autouse=True)
def any_optimizer():
    """``train`` gives no options of Adam, which fairseq would refuse with another optimizer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command_line, "TRAIN", WITHOUT_ADAM)
        yield


def train(save_dir, *options):
    if "--optimizer" not in options:
        options = (*ADAM, *options)
    return command_line.train(save_dir, *options)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """By name, the save-dir of a run of 4 updates with a log, and what it logged."""
    logging.getLogger("fairseq_cli.train").setLevel(logging.INFO)
    found = {}
    for name, options in RUNS.items():
        folder = tmp_path_factory.mktemp(name)
        found[name] = folder, train(folder, *options, "--log-file", folder / "train.log")
        for logger in map(logging.getLogger, list(logging.root.manager.loggerDict)):
            for handler in logger.handlers[:]:
                if isinstance(handler, logging.FileHandler):
                    logger.removeHandler(handler)
    return found


@pytest.fixture(params=RUNS)
def name(request):
    return request.param


def test_validates_as_it_did_in_training(runs, name):
    folder, trained = runs[name]
    (validated,) = command_line.validate(folder / "checkpoint_last.pt")["valid"]
    for metric in ("loss", "updates"):
        assert validated[f"valid_{metric}"] == pytest.approx(trained["valid"][-1][f"valid_{metric}"], rel=1e-4)


def test_resumes(name, tmp_path):
    whole = train(tmp_path / "whole", *RUNS[name])
    parts = [train(tmp_path / "parts", *RUNS[name], "--max-update", updates) for updates in (2, 4)]
    losses = [[entry["loss"] for entry in logged(*logs)[0]] for logs in (parts, [whole])]
    assert losses[0] == losses[1] and len(losses[0]) == 4


@pytest.mark.parametrize("optimizer", ["adafactor", "adamax"])
def test_other_optimizers(optimizer, tmp_path):
    logs = [train(tmp_path, "--optimizer", optimizer, "--max-update", updates)["train_inner"] for updates in (1, 2)]
    assert [len(log) for log in logs] == [1, 1]


def test_loads_in_the_hub(runs, name):
    folder, _ = runs[name]
    hub, sequences = from_pretrained(folder), np.random.default_rng(0).normal(size=(3, 12, 2))
    predicted = hub.predict(sequences)
    assert predicted.shape == (3, 1) and [len(used) for used in hub.used_samples(sequences)] == [12, 12, 12]
    if name == "model and criterion":
        hotter = from_pretrained(folder, temperature=4.0)
        np.testing.assert_allclose(hotter.predict(sequences), predicted / 2, rtol=1e-5)
    with pytest.raises(ValueError, match="nonsense: none of the checkpoint's options"):
        from_pretrained(folder, nonsense=1)


def test_options_that_are_reported(runs, name):
    """Those that say what was trained, the same from a checkpoint and a log; and nothing else of the whole run."""
    folder, _ = runs[name]
    saved, told = (
        {option: plain(value) for option, value in run.options.items()}
        for run in read_runs([folder / "checkpoint_last.pt", folder / "train.log"], None, {})
    )
    assert saved == told
    assert saved["optimizer"] == ("sgd" if "sgd" in RUNS[name] else "adam")
    if name == "model and criterion":
        assert saved["arch"] == "own_by_argparse_warm" and saved["criterion"] == "own_absolute_error"
        assert saved["own_power"] == "1.5" and saved["temperature"] == "2" and saved["update_bias"] == "-1"
    strangers = {"save_dir", "num_workers", "log_file", "max_update", "no_seed_provided", "lr_scheduler", "adam_betas"}
    assert not strangers & set(saved)


def test_an_infinity_in_a_log(runs, tmp_path):
    log = (runs["model and criterion"][0] / "train.log").read_text()
    (tmp_path / "train.log").write_text(log.replace("update_bias=-1.0", "update_bias=-inf"))
    (run,) = read_runs([tmp_path / "train.log"], None, {})
    assert run.options["update_bias"] == float("-inf")


def test_every_command(runs, name, prints, tmp_path):
    folder, trained = runs[name]
    for run in (folder, folder / "train.log"):
        printed = prints(report, run, "--table", "adding")
        assert ("own_by_argparse_warm" if name == "model and criterion" else "Skip GRU") in printed
    metric = ("--metric", "task_loss")
    for kind, run, *options in (
        ("tradeoff", folder, *metric),
        ("curves", folder / "train.log", *metric),
        ("skips", folder),
        ("samples", folder),
    ):
        prints(plot, kind, run, "--output", tmp_path / f"{kind}.png", *options)
        assert (tmp_path / f"{kind}.png").stat().st_size > 5000
    np.savetxt(tmp_path / "sequence.csv", np.ones((12, 2)), delimiter=",")
    assert "12" in prints(predict, folder, tmp_path / "sequence.csv", "--json")


def test_runs_that_differ_in_no_option_of_the_model_are_one_point(runs, prints, tmp_path):
    """Though their Namespaces differ in the save-dir and the seed."""
    again = tmp_path / "again"
    train(again, *RUNS["model and criterion"], "--seed", 2)
    printed = prints(
        plot, "tradeoff", runs["model and criterion"][0], again, "--metric", "loss", "--output", tmp_path / "points.png"
    )
    (row,) = printed.splitlines()[2:]
    assert row.rstrip("| ").endswith("2")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"momentum": float("nan")}, "--momentum: expected a number, got nan"),
        ({"adamax_betas": "(0.9, 1)"}, "--adamax-betas: expected two numbers"),
    ],
    ids=["momentum", "betas"],
)
def test_what_is_checked_of_them(options, message):
    with pytest.raises(ValueError, match=message):
        check_training_options({"optimizer": argparse.Namespace(**options), "dataset": {"batch_size": 1}})


def test_loading_names_what_is_unknown(runs, monkeypatch):
    from fairseq.criterions import CRITERION_REGISTRY

    monkeypatch.delitem(CRITERION_REGISTRY, "own_absolute_error")
    with pytest.raises(ValueError, match="unknown criterion 'own_absolute_error'; --user-dir"):
        from_pretrained(runs["model and criterion"][0])


def test_with_budget_around_a_criterion_with_add_args(runs):
    """Where another part of the run's configuration is a Namespace too."""
    from skiprnn_plugin.criterions.base import legacy_options

    cfg = load_checkpoint(runs["optimizer and scheduler"][0] / "checkpoint_last.pt", None, {}).cfg
    args = legacy_options("composite_loss", {"underlying_criterion": "cross_entropy"}, cfg)
    assert args.momentum == 0.9 and args.hidden_size == 8 and args.criterion == "composite_loss"


def test_a_task_needs_a_dataclass(tmp_path, monkeypatch):
    from fairseq.tasks import TASK_REGISTRY

    from skiprnn_plugin.tasks.adding import AddingTask

    monkeypatch.setitem(TASK_REGISTRY, "own_adding", type("OwnAddingTask", (AddingTask,), {"__dataclass": None}))
    monkeypatch.setitem(command_line.TASKS, "own_adding", ["--criterion", "mse_with_budget"])
    with pytest.raises(ValueError, match=r"task own_adding: expected register_task\('own_adding', dataclass=...\)"):
        command_line.train(tmp_path, *ADAM, task="own_adding")
