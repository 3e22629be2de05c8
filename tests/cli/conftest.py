"""Tiny runs to report and draw, and a way to call the commands."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Dict

import pytest

from ..command_line import train
from ..tiny_ucf101 import CornerEncoder
from ..tiny_video_runs import make_video_runs


@dataclass
class TinyRun:
    """A run of a few updates.

    Attributes:
        save_dir: with ``checkpoint_last.pt`` and the log.
        log: its ``--log-file``.
        logged: its last validation of split ``valid`` as fairseq logged it, without the prefix ``valid_``.
        logged_test: the same of split ``test``.
    """

    save_dir: Path
    log: Path
    logged: Dict[str, float]
    logged_test: Dict[str, float]

    @property
    def checkpoint(self):
        return self.save_dir / "checkpoint_last.pt"


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> Dict[str, TinyRun]:
    """Runs by name: two seeds of the same Skip GRU, which skip differently, and a model that the paper has not."""
    runs = {
        "seed1": ("--seed", 1, "--update-bias", -1),
        "seed2": ("--seed", 2, "--update-bias", -1),
        "other": ("--arch", "random_skip_lstm", "--skip-prob", 0.3, "--dropout", 0.5),
    }
    return {name: _train(tmp_path_factory.mktemp(name), options) for name, options in runs.items()}


@pytest.fixture(scope="session")
def tiny_frequency(tmp_path_factory) -> Dict[str, TinyRun]:
    """The same of task frequency_discrimination, by sampling period in ms; "other" is a period of no table."""
    options = ("--cost-per-sample", 1e-4, "--update-bias", -1, "--sampling-period")
    periods = {"1": 1, "0.5": 0.5, "other": 0.25}
    return {
        name: _train(tmp_path_factory.mktemp(name), (*options, period), task="frequency_discrimination")
        for name, period in periods.items()
    }


@pytest.fixture(scope="session")
def video_runs(resnet50_weights, tmp_path_factory):
    """See :func:`make_video_runs`."""
    pytest.importorskip("av")
    return make_video_runs(tmp_path_factory.mktemp("videos"), resnet50_weights)


def _train(save_dir, options, task="adding"):
    log = save_dir / "train.log"
    logging.getLogger("fairseq_cli.train").setLevel(logging.INFO)  # as in a process without pytest's own handlers
    stats = train(save_dir, *options, "--valid-subset", "valid,test", "--log-file", log, task=task)
    for logger in map(logging.getLogger, list(logging.root.manager.loggerDict)):
        for handler in logger.handlers[:]:
            if isinstance(handler, logging.FileHandler):  # fairseq leaves it there for the next run in this process
                logger.removeHandler(handler)
    logged = [
        {name.replace(f"{split}_", ""): value for name, value in stats[split][-1].items()}
        for split in ("valid", "test")
    ]
    return TinyRun(save_dir, log, *logged)


@pytest.fixture
def fails(capsys):
    """``fails(main, *arguments)``: the one line that a command prints before it ends with exit code 2."""

    def call(main, *arguments):
        capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1 and captured.err.endswith("\n"), captured.err
        assert ": error: " in captured.err and "Traceback" not in captured.err
        return captured.err

    return call


@pytest.fixture
def prints(capsys):
    """``prints(main, *arguments)``: what a command that succeeds prints on standard output."""

    def call(main, *arguments):
        capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return call


@pytest.fixture
def figures(monkeypatch):
    """The figures that are saved, a list."""
    from matplotlib.figure import Figure

    saved = []
    savefig = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (saved.append(self), savefig(self, *a, **k)))
    return saved


@pytest.fixture
def look():
    """A test in which matplotlib has the settings of the package's pictures."""
    from skiprnn_plugin.cli.plot.figures import Look

    with Look().applied():
        yield


@pytest.fixture
def corner_encoder(monkeypatch):
    """``skiprnn-prepare video`` has it in place of ResNet-50."""
    monkeypatch.setattr(CornerEncoder, "seen", [])
    monkeypatch.setattr("skiprnn_plugin.prepare.frame_encoder.FrameEncoder", CornerEncoder)
    return CornerEncoder
