"""``skiprnn-prepare imdb``: puts the IMDB reviews (``aclImdb``) into the form that fairseq's task
``sentence_prediction`` reads."""

import argparse
from pathlib import Path
from typing import Any, Dict

from ...arguments import UserError, as_option_errors, check_count, check_fraction, check_size

HELP = "split, tokenise and binarize the IMDB movie reviews (aclImdb)"
VOCAB_SIZE = 8000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", type=Path, help="the folder aclImdb or its .tar.gz")
    parser.add_argument("dest", metavar="DEST", type=Path, help="the folder to make")
    parser.add_argument(
        "--bpe", choices=("none", "sentencepiece"), default="none", help="tokens: words (none, the default) or pieces"
    )
    parser.add_argument(
        "--vocab-size", type=int, metavar="N", help=f"sentencepiece's number of pieces (default: {VOCAB_SIZE})"
    )
    parser.add_argument(
        "--min-count",
        type=int,
        default=5,
        metavar="N",
        help="tokens rarer in training become <unk> (default: %(default)s)",
    )
    parser.add_argument(
        "--valid-fraction",
        type=float,
        default=0.15,
        metavar="F",
        help="part of the training reviews held out for validation (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of that draw (default: %(default)s)")
    parser.add_argument("--overwrite", action="store_true", help="replace DEST, if this command has made it")


def run(args: argparse.Namespace) -> str:
    from ...prepare.imdb import binarize_imdb
    from ...prepare.new_folder import new_folder
    from ...prepare.record import RECORD

    _check(args)
    with new_folder(args.dest, args.overwrite, RECORD) as folder:
        options = {name: getattr(args, name) for name in ("bpe", "vocab_size", "min_count", "valid_fraction", "seed")}
        try:
            with as_option_errors(options):
                record = binarize_imdb(args.source, folder, **options)
        except ValueError as error:
            raise UserError(str(error)) from error
    return _summary(args.dest, record)


def _check(args: argparse.Namespace) -> None:
    """Raise :class:`UserError` for options that are wrong for any data."""
    from ...prepare.tokenize_text import import_sentencepiece

    if args.bpe == "sentencepiece":
        args.vocab_size = VOCAB_SIZE if args.vocab_size is None else args.vocab_size
        try:
            import_sentencepiece()
        except ImportError as error:
            raise UserError(f"--bpe sentencepiece: {error}") from error
    elif args.vocab_size is not None:
        raise UserError("--vocab-size: needs --bpe sentencepiece (--min-count says which words to keep)")
    try:
        if args.vocab_size is not None:
            check_size("--vocab-size", args.vocab_size)
        check_size("--min-count", args.min_count)
        check_count("--seed", args.seed)
        check_fraction("--valid-fraction", args.valid_fraction)
    except ValueError as error:
        raise UserError(str(error)) from error


def _summary(dest: Path, record: Dict[str, Any]) -> str:
    splits = ", ".join(
        f"{split} {counts['reviews']:,} reviews ({counts['unknown'] / counts['tokens']:.2%} of tokens unknown)"
        for split, counts in record["splits"].items()
    )
    return f"{dest}: {splits}; {record['vocabulary']:,} tokens in the vocabulary"
