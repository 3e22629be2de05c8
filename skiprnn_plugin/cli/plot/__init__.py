"""``skiprnn-plot``: figures of trained models. Every figure is a subcommand, and has a file."""

import argparse
from typing import Optional, Sequence

from ..command import add_version, run_command
from . import classes, curves, frames, samples, skips, tradeoff

PROGRAM = "skiprnn-plot"

# Every module has HELP, add_arguments(parser) and run(args)
FIGURES = {
    "samples": samples,
    "frames": frames,
    "skips": skips,
    "classes": classes,
    "tradeoff": tradeoff,
    "curves": curves,
}


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog=PROGRAM, description="Draw figures of trained models.")
    add_version(parser)
    subparsers = parser.add_subparsers(dest="figure", metavar="FIGURE", required=True)
    for name, module in FIGURES.items():
        module.add_arguments(subparsers.add_parser(name, help=module.HELP, description=module.HELP.capitalize() + "."))
    args = parser.parse_args(argv)
    return run_command(PROGRAM, FIGURES[args.figure].run, args)
