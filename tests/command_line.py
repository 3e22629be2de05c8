"""Runs fairseq's own commands in this process, or in one of their own."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).parent.parent
PLUGIN = ROOT / "skiprnn_plugin"

# The paper's settings, on little data
TRAIN = f"""
    --user-dir {PLUGIN} --cpu --batch-size 16
    --arch skip_gru --hidden-size 8 --cost-per-sample 1e-5
    --optimizer adam --lr 1e-4 --adam-eps 1e-8 --clip-norm 1.0 --max-update 4
    --log-format json --log-interval 1 --num-workers 0 --no-epoch-checkpoints
""".split()
# Of 12 steps, those drawn on the fly
TASKS = {
    "adding": "--criterion mse_with_budget --train-size 64 --valid-size 36 --sequence-length 12".split(),
    "frequency_discrimination": (
        "--criterion cross_entropy_with_budget --train-size 64 --valid-size 36 --sequence-duration 12".split()
    ),
    "sequential_mnist": "--criterion cross_entropy_with_budget --valid-size 36".split(),
    "feature_classification": "--criterion cross_entropy_with_budget".split(),
    "feature_localization": "--criterion binary_cross_entropy_with_budget --eval-points 10".split(),
    "imdb_sentiment": "--criterion cross_entropy_with_budget --sequence-length 12 --embedding-dim 7".split(),
}


def train_options(task="adding"):
    """What ``train`` gives ``fairseq-train`` for a task."""
    return [*TRAIN, "--task", task, *TASKS[task]]


def train(save_dir, *options, task="adding"):
    """``fairseq-train`` with ``train_options`` and further options (which win); returns what it logged, a list for each
    tag."""
    return _run("train", [*train_options(task), "--save-dir", str(save_dir), *map(str, options)])


def validate(checkpoint, *options, task="adding"):
    """``fairseq-validate``; returns what it logged, a list for each tag."""
    required = ["--user-dir", str(PLUGIN), "--task", task, "--cpu", "--batch-size", "16", "--log-format", "json"]
    return _run("validate", ["--path", str(checkpoint), *required, *map(str, options)])


def _run(command, arguments):
    # fairseq must not be imported by importing this file: some tests need it unimported
    import fairseq_cli.train
    import fairseq_cli.validate

    collector = _Collector()
    logger = logging.getLogger("fairseq.logging.progress_bar")
    logger.addHandler(collector)
    logger.setLevel(logging.INFO)
    try:
        # without reset_logging, which would take pytest's handlers away
        with (
            mock.patch.object(sys, "argv", [f"fairseq-{command}", *arguments]),
            mock.patch.object(fairseq_cli.validate, "reset_logging"),
        ):
            {"train": fairseq_cli.train, "validate": fairseq_cli.validate}[command].cli_main()
    finally:
        logger.removeHandler(collector)
    return collector.stats


def run(*command, cwd=None, **environment):
    """A command in a process of its own; returns the finished process, output as text."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run([str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True)


class _Collector(logging.Handler):
    """Keeps the numbers of fairseq's JSON log lines, by tag (``train_inner``, ``train``, ``valid``, ...)."""

    def __init__(self):
        super().__init__()
        self.stats = {}

    def emit(self, record):
        message = record.getMessage()
        if message.startswith('{"'):
            numbers = {name: float(value) for name, value in json.loads(message).items() if value is not None}
            self.stats.setdefault(record.name, []).append(numbers)
