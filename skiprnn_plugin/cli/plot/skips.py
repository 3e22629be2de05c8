"""``skiprnn-plot skips``: how many steps trained models skip between two updates, over a held-out split."""

import argparse
from typing import Sequence

import numpy as np

from ...runs.checkpoint import load_checkpoint
from ...runs.find import find_checkpoint, find_files
from ...runs.skips import Skips, count_skips, pool_skips
from ...runs.tradeoff import find_experiment
from ..command import as_table
from ..loading import CHECKPOINT_HELP, add_loading_arguments, add_split_argument, check_split, prepare_loading
from .figures import COLORS, add_legend, add_output_argument, check_output, new_figure, save

HELP = "draw how many steps models skip between two updates"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoints", metavar="CHECKPOINT", nargs="+", help=CHECKPOINT_HELP)
    add_output_argument(parser, "skips.png")
    add_split_argument(parser)
    add_loading_arguments(parser)


def run(args: argparse.Namespace) -> str:
    """Draw the figure; returns its numbers as a table."""
    check_output(args.output)
    check_split(args.split)
    files = find_files(args.checkpoints, find_checkpoint)
    overrides = prepare_loading(args)
    runs = [count_skips(load_checkpoint(file, args.split, overrides)) for file in files]
    experiment = find_experiment(runs)
    skips = pool_skips(runs)
    save(draw(skips, f"{experiment}, split {args.split}"), args.output)
    lines = [
        [model.label, str(model.sequences), f"{model.mean:.4g}", str(model.longest), str(model.runs)] for model in skips
    ]
    return as_table(["model", "sequences", "mean skip", "longest skip", "runs"], lines)


def draw(skips: Sequence[Skips], title: str):
    """A matplotlib figure: a histogram for each model, of its average sequence."""
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
    # Otherwise the lowest bar would have no height
    axes.set_ylim(bottom=min(model.counts[model.counts > 0].min() / model.sequences for model in skips) / 2)
    axes.set_xlabel("steps skipped between two updates")
    axes.set_ylabel("times per sequence")
    axes.set_title(title, loc="left", fontsize=10)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.spines[["top", "right"]].set_visible(False)
    add_legend(figure, [model.legend for model in skips])
    return figure
