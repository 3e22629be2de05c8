"""``skiprnn-prepare features``: features of frames or of sensors as ``feature_classification`` and
``feature_localization`` read them."""

import argparse
from pathlib import Path

from ...arguments import UserError
from .feature_file import OF_COLUMNS, OF_DIVISION, ONE_FILE, add_file_arguments, read_file, refuse
from .feature_folder import add_folder_arguments, write_folder

HELP = "check sequences of features and put them into one file (a folder, an .npz, .csv or .tsv file, or Charades)"
SOURCE_HELP = """
one of these. A folder: manifest.tsv or manifest.csv, with the columns sequence (NAME), split (train, valid, optionally
test) and label, or annotations and duration; and a file NAME.npy for each sequence, numbers [steps, features], or
[steps] of one feature. An .npz file with a list of arrays [steps, features], as numpy.savez(FILE, *arrays,
labels=labels) writes it, or with the array values: [sequences, steps, features]; [sequences, steps] of one feature; or
[sum of steps, features], one sequence after the other, with lengths, the steps of each. Beside it labels, and
optionally subject, one for each sequence, whole numbers or names; and optionally label_names, if labels are numbers
from 0. A .csv file (.tsv with tabs): a line for each step, with the columns sequence and label, optionally subject and
split, and a column for each feature. With --annotations: the folder Charades_v1_features_rgb
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", type=Path, help=SOURCE_HELP)
    add_folder_arguments(parser)
    add_file_arguments(parser)
    charades = parser.add_argument_group("options for Charades, whose test set becomes the split valid")
    charades.add_argument(
        "--annotations", nargs=2, type=Path, metavar="CSV", help="Charades_v1_train.csv and Charades_v1_test.csv"
    )
    charades.add_argument("--classes", type=Path, metavar="FILE", help="Charades_v1_classes.txt")


def run(args: argparse.Namespace) -> str:
    try:
        source, options = _read_source(args)
    except ValueError as error:
        raise UserError(str(error)) from error
    return write_folder(source, args, options)


def _read_source(args: argparse.Namespace):
    """What to write, and the options for the record."""
    from ...prepare.charades import read_charades
    from ...prepare.feature_sources import find_origin, read_folder

    if not args.source.exists():
        raise UserError(f"{args.source}: no such file or folder")
    if args.annotations or args.classes:
        refuse(args, {**OF_DIVISION, **OF_COLUMNS}, ONE_FILE)
        if args.regression is not None:
            raise UserError("--regression: expected labels, got --annotations, of Charades")
        if not (args.annotations and args.classes):
            raise UserError("--annotations, --classes: expected both, of Charades")
        names = {"annotations": [path.name for path in args.annotations], "classes": args.classes.name}
        return read_charades(args.source, args.annotations, args.classes), names
    if args.source.is_dir():
        refuse(args, {**OF_DIVISION, **OF_COLUMNS}, ONE_FILE)
        return read_folder(args.source, args.regression), find_origin(args.source)
    return read_file(args)
