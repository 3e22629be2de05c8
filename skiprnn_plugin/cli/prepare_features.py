"""``skiprnn-prepare features``: features of frames or of sensors as ``feature_classification`` and
``feature_localization`` read them."""

import argparse
import shutil
from pathlib import Path
from typing import Any, Dict

from .command import UserError
from .new_folder import new_folder

HELP = "check sequences of features and put them into one file (one's own, an .npz of several subjects, or Charades)"
SOURCE_HELP = """
a folder with manifest.tsv and a file NAME.npy, [steps, features], for each sequence; or an .npz file with values,
lengths, labels and subject; or, with --annotations, Charades_v1_features_rgb
"""
# Options of one kind of source alone, and their defaults
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
    parser.add_argument(
        "dest", metavar="DEST", type=Path, help="the folder to make; given again, an interrupted command goes on"
    )
    parser.add_argument(
        "--dtype",
        choices=("float16", "float32"),
        default="float32",
        help="of the stored numbers (default: %(default)s)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace DEST, if this command has made it")
    subjects = parser.add_argument_group("of an .npz file")
    subjects.add_argument("--held-out-subjects", nargs="+", metavar="S", help="subjects of split test (default: drawn)")
    subjects.add_argument("--valid-subjects", nargs="+", metavar="S", help="subjects of split valid (default: drawn)")
    for name in ("held-out", "valid"):
        default = OF_SUBJECTS[f"{name.replace('-', '_')}_fraction"]
        subjects.add_argument(
            f"--{name}-fraction", type=float, metavar="F", help=f"of the subjects, to draw (default: {default})"
        )
    subjects.add_argument("--seed", type=int, help=f"draws these (default: {OF_SUBJECTS['seed']})")
    charades = parser.add_argument_group("of Charades, whose test set becomes the split valid")
    charades.add_argument(
        "--annotations", nargs=2, type=Path, metavar="CSV", help="Charades_v1_train.csv and Charades_v1_test.csv"
    )
    charades.add_argument("--classes", type=Path, metavar="FILE", help="Charades_v1_classes.txt")


def run(args: argparse.Namespace) -> str:
    from .. import __version__
    from ..data.write_features import RECORD, write_features

    try:
        source, options = _read_source(args)
    except ValueError as error:
        raise UserError(str(error)) from error
    options = {"version": __version__, "dtype": args.dtype, **options}
    with new_folder(args.dest, args.overwrite, RECORD, resume=True) as folder:
        try:
            record = write_features(source, folder, args.dtype, options)
        except ValueError as error:
            shutil.rmtree(folder)  # it would be as wrong the next time
            raise UserError(f"{args.source}: {error}") from error
    return _summary(args.dest, record)


def _read_source(args: argparse.Namespace):
    """What to write, and the options for the record."""
    from ..data.charades import read_charades
    from ..data.feature_sources import read_folder, read_subjects

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
    return read_subjects(args.source, **options), options


def _refuse(args: argparse.Namespace, options: Dict[str, Any], kind: str) -> None:
    for name in options:
        if getattr(args, name) is not None:
            raise UserError(f"--{name.replace('_', '-')}: is for {kind} alone, got {args.source}")


def _summary(dest: Path, record: Dict[str, Any]) -> str:
    splits = ", ".join(
        f"{split} {counts['sequences']:,} sequences ({counts['steps']:,} steps)"
        for split, counts in record["splits"].items()
    )
    passed_over = record["passed_over"]
    if not passed_over:
        return f"{dest}: {splits}; {record['features']:,} features"
    name, reason = next(iter(passed_over.items()))
    return (
        f"{dest}: {splits}; {record['features']:,} features; {len(passed_over):,} passed over, all in prepare.json, as "
        f"{name}: {reason}"
    )
