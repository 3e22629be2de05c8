"""``skiprnn-plot skips``: how many steps trained models skip between two updates, over a held-out split."""

import argparse
from typing import Sequence

import numpy as np

from ...runs.checkpoint import load_checkpoint
from ...runs.find import find_files, find_named_checkpoint
from ...runs.rows import name_experiment
from ...runs.skips import Skips, measure_skips, pool_skips
from ...runs.tradeoff import find_experiment
from ..command import as_table
from ..loading import CHECKPOINT_HELP, add_loading_arguments, add_split_argument, check_split, prepare_loading
from .elements import add_legend, add_title, get_cycle, limit_ticks, new_figure
from .figures import add_picture_arguments, check_picture, choose_title, write_picture

HELP = "draw how many steps models skip between two updates"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoints", metavar="CHECKPOINT", nargs="+", help=CHECKPOINT_HELP)
    add_picture_arguments(parser, "skips.png")
    add_split_argument(parser)
    add_loading_arguments(parser)


def run(args: argparse.Namespace) -> str:
    """Draw the figure; returns its numbers as a table."""
    look = check_picture(args)
    check_split(args.split)
    files = find_files(args.checkpoints, find_named_checkpoint)
    overrides = prepare_loading(args)
    runs = [measure_skips(load_checkpoint(file, args.split, overrides)) for file in files]
    find_experiment(runs)
    skips = pool_skips(runs)
    title = choose_title(args, f"{name_experiment(runs[0].options)}, split {args.split}")
    write_picture(lambda: draw(skips, title), args.output, look)
    lines = [
        [model.label, str(model.sequences), f"{model.mean:.4g}", str(model.longest), str(model.runs)] for model in skips
    ]
    return as_table(["model", "sequences", "mean skip", "longest skip", "runs"], lines)


def draw(skips: Sequence[Skips], title: str):
    """A matplotlib figure: a histogram for each model, of its average sequence."""
    figure, colors = new_figure(height=2.5), get_cycle()
    axes = figure.subplots()
    steps = [
        axes.stairs(
            model.counts / model.sequences,
            np.arange(len(model.counts) + 1) - 0.5,
            baseline=0,
            color=colors[index % len(colors)],
            fill=len(skips) == 1,
            linestyle=("-", "--", ":")[index // len(colors) % 3],
            label=model.legend,
        )
        for index, model in enumerate(skips)
    ]
    axes.set_yscale("log")
    # Otherwise the lowest bar would have no height
    axes.set_ylim(bottom=min(model.counts[model.counts > 0].min() / model.sequences for model in skips) / 2)
    axes.set_xlabel("steps skipped between two updates")
    axes.set_ylabel("times per sequence")
    limit_ticks(axes, integer=True)
    add_legend(figure, steps, [model.legend for model in skips])
    add_title(figure, title)
    return figure
