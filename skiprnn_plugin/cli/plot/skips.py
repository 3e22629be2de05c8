"""``skiprnn-plot skips``: how many steps trained models skip between two updates, over a held-out split."""

import argparse
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import NamedTuple, Sequence

import numpy as np

from ...arguments import UserError
from ...runs.checkpoint import (
    Loaded,
    add_loading_arguments,
    check_split,
    iterate_batches,
    load_checkpoint,
    prepare_loading,
    run_model,
)
from ...runs.find import find_checkpoint, find_files
from ...runs.run import Run
from ...runs.series import group_series, label_runs
from ...runs.tradeoff import find_experiment
from ..command import as_table
from .figures import COLORS, add_legend, check_output, new_figure, save

HELP = "draw how many steps models skip between two updates"


@dataclass
class CountedRun(Run):
    """A run, with how often two updates of a sequence had 0, 1, 2, ... skipped steps between them, [longest + 1]."""

    counts: np.ndarray


class Skips(NamedTuple):
    """Runs that repeat each other, all counted together.

    Attributes:
        label: of the model.
        counts: see :class:`CountedRun`.
        sequences: how many held-out sequences were read, by all runs.
        runs: how many runs.
    """

    label: str
    counts: np.ndarray
    sequences: int
    runs: int

    @property
    def mean(self) -> float:
        return float(self.counts @ np.arange(len(self.counts)) / self.counts.sum())

    @property
    def longest(self) -> int:
        return len(self.counts) - 1

    @property
    def legend(self) -> str:
        return f"{self.label}: mean {self.mean:.3g}, longest {self.longest}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "checkpoints", metavar="CHECKPOINT", nargs="+", help="a checkpoint (*.pt), or a save-dir for its last one"
    )
    parser.add_argument("--output", type=Path, default=Path("skips.png"), help="default: %(default)s")
    parser.add_argument("--split", default="valid", help="held-out split (default: %(default)s)")
    add_loading_arguments(parser)


def run(args: argparse.Namespace) -> str:
    """Draw the figure; returns its numbers as a table."""
    check_output(args.output)
    check_split(args.split)
    files = find_files(args.checkpoints, find_checkpoint)
    overrides = prepare_loading(args)
    runs = [count_skips(load_checkpoint(file, args.split, overrides)) for file in files]
    experiment = find_experiment(runs)
    skips = [
        _pool(label_runs(label, repeated[0].options), repeated)
        for label, _, _, points in group_series(runs)
        for repeated in points
    ]
    save(draw(skips, f"{experiment}, split {args.split}"), args.output)
    lines = [
        [model.label, str(model.sequences), f"{model.mean:.4g}", str(model.longest), str(model.runs)] for model in skips
    ]
    return as_table(["model", "sequences", "mean skip", "longest skip", "runs"], lines)


def count_skips(loaded: Loaded) -> CountedRun:
    """Run the whole held-out split through the model; of a bidirectional one both directions count.

    Steps before a sequence's first update and after its last are not between two, and don't count.
    """
    counts, sequences = np.zeros(0, dtype=int), 0
    for sample in iterate_batches(loaded):
        _, used = run_model(loaded, sample)
        sequences += len(used)
        rows, steps = used.reshape(-1, used.shape[2]).nonzero()
        skipped = np.diff(steps)[np.diff(rows) == 0] - 1
        counts = _add(counts, np.bincount(skipped))
    if not counts.any():
        raise UserError(
            f"{loaded.path}: no sequence of split {loaded.split} has two updates, to count the steps between"
        )
    return CountedRun(loaded.path, loaded.options, {}, sequences, counts)


def _add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    size = max(len(a), len(b))
    return np.pad(a, (0, size - len(a))) + np.pad(b, (0, size - len(b)))


def _pool(label: str, runs: Sequence[CountedRun]) -> Skips:
    counts = reduce(_add, [run.counts for run in runs])
    return Skips(label, counts, sum(run.sequences for run in runs), len(runs))


def draw(skips: Sequence[Skips], title: str):
    """A matplotlib figure: a histogram for each, as an average sequence has it."""
    figure = new_figure(height=4.0)
    axes = figure.subplots()
    for index, model in enumerate(skips):
        axes.stairs(
            model.counts / model.sequences,
            np.arange(len(model.counts) + 1) - 0.5,
            baseline=0,
            color=COLORS[index % len(COLORS)],
            fill=len(skips) == 1,
            linewidth=1.3,
            linestyle=("-", "--", ":")[index // len(COLORS) % 3],
            label=model.legend,
        )
    axes.set_yscale("log")
    # Otherwise the lowest bar would end at the axis, and be invisible
    axes.set_ylim(bottom=min(model.counts[model.counts > 0].min() / model.sequences for model in skips) / 2)
    axes.set_xlabel("steps skipped between two updates")
    axes.set_ylabel("times per sequence")
    axes.set_title(title, loc="left", fontsize=10)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.spines[["top", "right"]].set_visible(False)
    add_legend(figure, [model.legend for model in skips])
    return figure
