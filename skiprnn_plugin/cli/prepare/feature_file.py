"""Shared by the commands that read sequences from one file: how it is divided into splits, and its columns."""

import argparse
from typing import Any, Dict

from ...arguments import UserError, as_option, as_option_errors, check_count, check_fraction

ONE_FILE = "an .npz, .csv or .tsv file"
SUFFIXES = (".npz", ".csv", ".tsv")
SEED = 1
# The options that only one kind of source has, with their defaults
OF_DIVISION = {
    "held_out_subjects": None,
    "valid_subjects": None,
    "held_out_fraction": 0.2,
    "valid_fraction": 0.2,
    "seed": SEED,
}
OF_COLUMNS = {"sequence_column": "sequence", "label_column": "label", "ignore_columns": ()}


def name_division(seed: str) -> Dict[str, Any]:
    """:data:`OF_DIVISION`, with another name for the seed."""
    return {seed if name == "seed" else name: default for name, default in OF_DIVISION.items()}


def add_file_arguments(parser: argparse.ArgumentParser, seed: str = "seed") -> None:
    """The options of :data:`OF_DIVISION`, with ``seed`` as the name of the seed, of :data:`OF_COLUMNS`, and
    ``--regression``, which is for folders too."""
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
    division.add_argument(as_option(seed), type=int, help=f"seed of these draws (default: {SEED})")
    columns = parser.add_argument_group("options for a .csv or .tsv file")
    for name, meaning in (("sequence", "which sequence a step belongs to"), ("label", "the class of a sequence")):
        default = OF_COLUMNS[f"{name}_column"]
        columns.add_argument(f"--{name}-column", metavar="NAME", help=f"{meaning} (default: {default})")
    parser.add_argument(
        "--regression",
        action=argparse.BooleanOptionalAction,
        help="whether labels are numbers to predict, not classes (default: if all are numbers and any has a fraction)",
    )
    columns.add_argument(
        "--ignore-columns",
        nargs="+",
        metavar="NAME",
        help='columns to leave out, such as a time; "" leaves out one without a name',
    )


def read_file(args: argparse.Namespace, seed: str = "seed"):
    """What to write of ``args.source``, and the options for the record. Raises UserError or ValueError.

    ``seed`` is the name that :func:`add_file_arguments` has had.
    """
    from ...prepare.csv_source import Columns, read_csv
    from ...prepare.npz_source import read_npz
    from ...prepare.splits import Division

    if args.source.suffix.lower() not in SUFFIXES:
        raise UserError(f"{args.source}: expected a folder, or a file {', '.join(SUFFIXES)}")
    known = name_division(seed)
    options = _options(args, known)
    for name in ("held_out_fraction", "valid_fraction"):
        check_fraction(as_option(name), options[name])
    check_count(as_option(seed), options[seed])
    options["seed"] = options.pop(seed)
    divide = Division(**options, given=[name for name in known if getattr(args, name) is not None])
    with as_option_errors({**known, **OF_COLUMNS}):
        if args.source.suffix.lower() == ".npz":
            refuse(args, OF_COLUMNS, "a .csv or .tsv file")
            return read_npz(args.source, divide, args.regression), options
        columns = _options(args, OF_COLUMNS)
        names = Columns(columns["sequence_column"], columns["label_column"], ignored=tuple(columns["ignore_columns"]))
        source, is_divided = read_csv(args.source, names, divide, args.regression)
        return source, {**(options if is_divided else {}), **columns}


def _options(args: argparse.Namespace, defaults: Dict[str, Any]) -> Dict[str, Any]:
    return {name: default if getattr(args, name) is None else getattr(args, name) for name, default in defaults.items()}


def refuse(args: argparse.Namespace, options: Dict[str, Any], kind: str) -> None:
    """Raise UserError if one of these options was given, which is only for sources of this kind."""
    for name in options:
        if getattr(args, name) is not None:
            raise UserError(f"{as_option(name)}: is only for {kind}, got {args.source}")
