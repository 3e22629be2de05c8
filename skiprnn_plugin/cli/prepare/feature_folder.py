"""Shared by the subcommands of ``skiprnn-prepare`` that make a folder of features."""

import argparse
import shutil
from pathlib import Path
from typing import Any, Dict

from ...arguments import UserError

MOST_NAMES = 10  # features that the summary names


def add_folder_arguments(parser: argparse.ArgumentParser) -> None:
    """``DEST``, ``--dtype`` and ``--overwrite``."""
    parser.add_argument(
        "dest", metavar="DEST", type=Path, help="the folder to make; run an interrupted command again to resume it"
    )
    parser.add_argument(
        "--dtype",
        choices=("float16", "float32", "float64"),
        default="float32",
        help="the stored numbers' dtype; float64 for large numbers that differ little, such as times (default: "
        "%(default)s)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace DEST, if this command has made it")


def write_folder(source, args: argparse.Namespace, options: Dict[str, Any]) -> str:
    """Make ``args.dest`` of a :class:`skiprnn_plugin.prepare.write_features.Source`; returns a summary in one line.

    ``options`` are written to the record, beside the version and the dtype. Raises UserError.
    """
    from ...prepare.new_folder import new_folder
    from ...prepare.record import RECORD
    from ...prepare.write_features import write_features
    from ...version import __version__

    options = {"version": __version__, "dtype": args.dtype, **options}
    with new_folder(args.dest, args.overwrite, RECORD, resume=True) as folder:
        try:
            record = write_features(source, folder, args.dtype, options)
        except ValueError as error:
            shutil.rmtree(folder)  # what it holds is wrong, so the next run can't resume it
            raise UserError(f"{args.source}: {error}") from error
    return _summary(args.dest, record)


def _summary(dest: Path, record: Dict[str, Any]) -> str:
    from ...prepare.record import RECORD
    from ...prepare.write_features import LABELS, LEFT_OUT, NUMBERS, ROUGH, ROUNDED

    splits = ", ".join(
        f"{split} {counts['sequences']:,} sequences ({counts['steps']:,} steps)"
        for split, counts in record["splits"].items()
    )
    names = record.get("feature_names", ())
    shown = ", ".join(names[:MOST_NAMES]) + (", ..." if len(names) > MOST_NAMES else "")
    made = f"{dest}: {splits}; {record['features']:,} features" + (f" ({shown})" if names else "")
    if record.get(LABELS) == NUMBERS:
        made += "; labels are numbers to predict (with --no-regression they are classes)"
    if ROUNDED in record:
        rounded = ", ".join(str(names[place] if names else place) for place in record[ROUNDED][:MOST_NAMES])
        made += (
            f"; {record['dtype']} rounds features {rounded} by more than {ROUGH:.0%} of their standard deviation: give "
            "a wider --dtype, such as float64"
        )
    left_out = record[LEFT_OUT]
    if not left_out:
        return made
    name, reason = next(iter(left_out.items()))
    return f"{made}; {len(left_out):,} left out, all listed in {RECORD} ({LEFT_OUT}), such as {name}: {reason}"
