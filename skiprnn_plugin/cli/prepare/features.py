"""``skiprnn-prepare features``: features of frames or of sensors as ``feature_classification`` and
``feature_localization`` read them."""

import argparse
from pathlib import Path
from typing import Any, Dict

from ...arguments import UserError
from .feature_folder import add_folder_arguments, write_folder

HELP = "check sequences of features and put them into one file (a folder, an .npz or a .csv file, or Charades)"
SOURCE_HELP = """
a folder with manifest.tsv or manifest.csv, whose columns are sequence (NAME), split (train, valid, optionally test)
and label, or annotations and duration, and a file NAME.npy, floats [steps, features], for each sequence; or an .npz
file: values [sequences, steps, features], or values [sum of steps, features], one sequence after the other, with
lengths, the steps of each, or a list of arrays [steps, features] as numpy.savez(FILE, *arrays, labels=labels) writes
it, and for each sequence labels and optionally subject, both integers or names, and optionally label_names, if labels
are numbers from 0; or a .csv file with a line for each step and the columns sequence, label, optionally subject and
split, and numbers in all others; or, with --annotations, Charades_v1_features_rgb
"""
# The options that only one kind of source has, with their defaults
OF_DIVISION = {
    "held_out_subjects": None,
    "valid_subjects": None,
    "held_out_fraction": 0.2,
    "valid_fraction": 0.2,
    "seed": 1,
}
OF_COLUMNS = {"sequence_column": "sequence", "label_column": "label", "ignore_columns": ()}
OF_CHARADES = {"annotations": None, "classes": None}
ONE_FILE = "an .npz or .csv file"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", type=Path, help=SOURCE_HELP)
    add_folder_arguments(parser)
    division = parser.add_argument_group(f"options for {ONE_FILE}, whose sequences are divided into splits")
    division.add_argument("--held-out-subjects", nargs="+", metavar="S", help="subjects of split test (default: drawn)")
    division.add_argument("--valid-subjects", nargs="+", metavar="S", help="subjects of split valid (default: drawn)")
    for name in ("held-out", "valid"):
        default = OF_DIVISION[f"{name.replace('-', '_')}_fraction"]
        division.add_argument(
            f"--{name}-fraction",
            type=float,
            metavar="F",
            help="fraction of the subjects to draw, or, if there are no subjects, of the sequences of each class "
            f"(default: {default})",
        )
    division.add_argument("--seed", type=int, help=f"seed of these draws (default: {OF_DIVISION['seed']})")
    columns = parser.add_argument_group("options for a .csv file")
    columns.add_argument(
        "--sequence-column", metavar="NAME", help="which sequence a step belongs to (default: sequence)"
    )
    columns.add_argument("--label-column", metavar="NAME", help="the class of a sequence (default: label)")
    columns.add_argument("--ignore-columns", nargs="+", metavar="NAME", help="columns to leave out, such as a time")
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
    from ...prepare.feature_sources import read_folder

    if not args.source.exists():
        raise UserError(f"{args.source}: no such file or folder")
    if args.annotations or args.classes:
        _refuse(args, {**OF_DIVISION, **OF_COLUMNS}, ONE_FILE)
        if not (args.annotations and args.classes):
            raise UserError("--annotations, --classes: expected both, of Charades")
        names = {"annotations": [path.name for path in args.annotations], "classes": args.classes.name}
        return read_charades(args.source, args.annotations, args.classes), names
    if args.source.is_dir():
        _refuse(args, {**OF_DIVISION, **OF_COLUMNS}, ONE_FILE)
        return read_folder(args.source), {}
    return _read_file(args)


def _read_file(args: argparse.Namespace):
    """The same for one file."""
    from ...arguments import as_option_errors
    from ...prepare.csv_source import Columns, read_csv
    from ...prepare.npz_source import read_npz
    from ...prepare.splits import Division

    options = _options(args, OF_DIVISION)
    for name in ("held_out_fraction", "valid_fraction"):
        if not 0 < options[name] < 1:
            raise UserError(f"--{name.replace('_', '-')}: expected a number between 0 and 1, got {options[name]}")
    if options["seed"] < 0:
        raise UserError(f"--seed: expected at least 0, got {options['seed']}")
    divide = Division(**options)
    with as_option_errors(options):
        if args.source.suffix.lower() != ".csv":
            _refuse(args, OF_COLUMNS, "a .csv file")
            return read_npz(args.source, divide), options
        columns = _options(args, OF_COLUMNS)
        names = Columns(columns["sequence_column"], columns["label_column"], ignored=tuple(columns["ignore_columns"]))
        return read_csv(args.source, names, divide), {**options, **columns}


def _options(args: argparse.Namespace, defaults: Dict[str, Any]) -> Dict[str, Any]:
    return {name: default if getattr(args, name) is None else getattr(args, name) for name, default in defaults.items()}


def _refuse(args: argparse.Namespace, options: Dict[str, Any], kind: str) -> None:
    for name in options:
        if getattr(args, name) is not None:
            raise UserError(f"--{name.replace('_', '-')}: is only for {kind}, got {args.source}")
