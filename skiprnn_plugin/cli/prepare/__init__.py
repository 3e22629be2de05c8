"""``skiprnn-prepare``: makes data sets ready for fairseq. Every kind of data is a subcommand, and has a file."""

import argparse
from typing import Optional, Sequence

from ..command import add_version, run_command
from . import features, imdb, video

PROGRAM = "skiprnn-prepare"

# Every module has HELP, add_arguments(parser) and run(args)
DATA_SETS = {"features": features, "imdb": imdb, "video": video}


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog=PROGRAM, description="Make a data set ready for fairseq.")
    add_version(parser)
    subparsers = parser.add_subparsers(dest="data_set", metavar="DATA_SET", required=True)
    for name, module in DATA_SETS.items():
        description = module.HELP[0].upper() + module.HELP[1:] + "."
        module.add_arguments(subparsers.add_parser(name, help=module.HELP, description=description))
    args = parser.parse_args(argv)
    return run_command(PROGRAM, DATA_SETS[args.data_set].run, args)
