"""``skiprnn-plot``: figures from trained models, one subcommand and one file each."""

import argparse
import sys
from typing import Optional, Sequence

from . import plot_classes, plot_curves, plot_frames, plot_samples, plot_skips, plot_tradeoff
from .command import run_command

PROGRAM = "skiprnn-plot"

# Each has HELP, add_arguments(parser) and run(args)
FIGURES = {
    "samples": plot_samples,
    "frames": plot_frames,
    "skips": plot_skips,
    "classes": plot_classes,
    "tradeoff": plot_tradeoff,
    "curves": plot_curves,
}


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog=PROGRAM, description="Draw figures from trained models.")
    subparsers = parser.add_subparsers(dest="figure", metavar="FIGURE", required=True)
    for name, module in FIGURES.items():
        module.add_arguments(subparsers.add_parser(name, help=module.HELP, description=module.HELP.capitalize() + "."))
    args = parser.parse_args(argv)
    return run_command(PROGRAM, FIGURES[args.figure].run, args)


if __name__ == "__main__":
    sys.exit(main())
