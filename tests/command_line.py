"""Runs fairseq's own commands in this process, or in one of their own."""

import copy
import functools
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).parent.parent
PLUGIN = ROOT / "skiprnn_plugin"
# With which an exported C header has to compile, as firmware is compiled with many
WARNINGS = ["-Wall", "-Wextra", "-Wfloat-equal", "-Wbad-function-cast", "-Wconversion", "-Wshadow", "-Werror"]

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
    "feature_regression": "--criterion mse_with_budget".split(),
    "imdb_sentiment": "--criterion cross_entropy_with_budget --sequence-length 12 --embedding-dim 7".split(),
}


def train_options(task="adding"):
    """What ``train`` gives ``fairseq-train`` for a task."""
    return [*TRAIN, "--task", task, *TASKS[task]]


def train(save_dir, *options, task="adding"):
    """``fairseq-train`` with ``train_options`` and further options (which win); returns what it logged, a list for each
    tag."""
    return run_here("train", [*train_options(task), "--save-dir", str(save_dir), *map(str, options)])


def validate(checkpoint, *options, task="adding"):
    """``fairseq-validate``; returns what it logged, a list for each tag."""
    required = ["--user-dir", str(PLUGIN), "--task", task, "--cpu", "--batch-size", "16", "--log-format", "json"]
    return run_here("validate", ["--path", str(checkpoint), *required, *map(str, options)])


def run_here(command, arguments):
    """fairseq's command in this process; returns what it logged, a list for each tag."""
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
            mock.patch("fairseq.dataclass.utils.compose", compose),
        ):
            {"train": fairseq_cli.train, "validate": fairseq_cli.validate}[command].cli_main()
    finally:
        logger.removeHandler(collector)
    return collector.stats


def compose(config_name, overrides=(), strict=None):
    """What hydra's ``compose`` returns for a fairseq command.

    Hydra takes longer to compose a configuration from the command's 260 options than such a command takes to train.
    Here hydra composes only what names a part of the configuration (as ``task=adding``), and that once; the parts' own
    options (as ``model.dropout=0.1``), which hydra applies next, are applied to a copy. Hydra's reading of an option is
    kept too, as most options have the same value in all commands.
    """
    from omegaconf import OmegaConf, flag_override

    parts, options = [], []
    for override in overrides:
        (options if "." in override.partition("=")[0] else parts).append(override)
    composed = copy.deepcopy(_compose_parts(config_name, tuple(parts), strict))
    with flag_override(composed, "struct", True):  # so that an unknown option is an error
        for option in map(_parse_option, options):
            OmegaConf.update(composed, option.key_or_group, option.value())
    return composed


@functools.cache
def _compose_parts(config_name, parts, strict):
    from hydra.experimental import compose

    return compose(config_name, list(parts), strict=strict)


@functools.cache
def _parse_option(text):
    from hydra.core.override_parser.overrides_parser import OverridesParser

    return OverridesParser.create().parse_override(text)


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
