"""``skiprnn-prepare features``: features of frames or of sensors as ``feature_classification`` and
``feature_localization`` read them."""

import argparse
from pathlib import Path
from typing import Any, Dict

from ...arguments import UserError
from .feature_folder import add_folder_arguments, write_folder

HELP = "check sequences of features and put them into one file (your own, an .npz of several subjects, or Charades)"
SOURCE_HELP = """
a folder with manifest.tsv, whose columns are sequence (NAME), steps, split (train, valid, optionally test) and label,
or annotations and duration, and a file NAME.npy, floats [steps, features], for each sequence; or an .npz file of
several subjects: values, floats [sum of steps, features], one sequence after the other, and for each sequence lengths
(its steps), labels and subject, both integers or names; and optionally label_names, if labels are numbers from 0; or,
with --annotations, Charades_v1_features_rgb
"""
# The options that only one kind of source has, with their defaults
OF_SUBJECTS = {
    "held_out_subjects": None,
    "valid_subjects": None,
    "held_out_fraction": 0.2,
    "valid_fraction": 0.2,
    "seed": 1,
}
OF_CHARADES = {"annotations": None, "classes": None}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", type=Path, help=SOURCE_HELP)
    add_folder_arguments(parser)
    subjects = parser.add_argument_group("options for an .npz file")
    subjects.add_argument("--held-out-subjects", nargs="+", metavar="S", help="subjects of split test (default: drawn)")
    subjects.add_argument("--valid-subjects", nargs="+", metavar="S", help="subjects of split valid (default: drawn)")
    for name in ("held-out", "valid"):
        default = OF_SUBJECTS[f"{name.replace('-', '_')}_fraction"]
        subjects.add_argument(
            f"--{name}-fraction", type=float, metavar="F", help=f"fraction of the subjects to draw (default: {default})"
        )
    subjects.add_argument("--seed", type=int, help=f"seed of these draws (default: {OF_SUBJECTS['seed']})")
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
    from ...arguments import as_option_errors
    from ...prepare.charades import read_charades
    from ...prepare.feature_sources import read_folder, read_subjects

    if not args.source.exists():
        raise UserError(f"{args.source}: no such file or folder")
    if args.annotations or args.classes:
        _refuse(args, OF_SUBJECTS, "an .npz file")
        if not (args.annotations and args.classes):
            raise UserError("--annotations, --classes: expected both, of Charades")
        names = {"annotations": [path.name for path in args.annotations], "classes": args.classes.name}
        return read_charades(args.source, args.annotations, args.classes), names
    if args.source.is_dir():
        _refuse(args, OF_SUBJECTS, "an .npz file")
        return read_folder(args.source), {}
    options = {
        name: default if getattr(args, name) is None else getattr(args, name) for name, default in OF_SUBJECTS.items()
    }
    for name in ("held_out_fraction", "valid_fraction"):
        if not 0 < options[name] < 1:
            raise UserError(f"--{name.replace('_', '-')}: expected a number between 0 and 1, got {options[name]}")
    if options["seed"] < 0:
        raise UserError(f"--seed: expected at least 0, got {options['seed']}")
    with as_option_errors(options):
        return read_subjects(args.source, **options), options


def _refuse(args: argparse.Namespace, options: Dict[str, Any], kind: str) -> None:
    for name in options:
        if getattr(args, name) is not None:
            raise UserError(f"--{name.replace('_', '-')}: is only for {kind}, got {args.source}")
