"""What the commands on trained models share: the help on runs and checkpoints, and the options for loading them."""

import argparse
from pathlib import Path
from typing import Any, Dict, Optional

from ..arguments import UserError
from ..reading import first_sentence
from ..runs.checkpoint import import_user_dir

RUN_HELP = (
    "a fairseq save-dir (its checkpoint_last.pt, or its only *.log), a checkpoint (*.pt, evaluated again), a log of "
    "fairseq-train --log-format json (its last validation), or the JSON of an earlier skiprnn-report (*.json, all its "
    "runs)"
)
CHECKPOINT_HELP = "a checkpoint (*.pt), or a save-dir for its last one"
HUB_HELP = "a checkpoint (*.pt), or a save-dir for its checkpoint_best.pt, or else its checkpoint_last.pt"


def add_loading_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a command that loads checkpoints; :func:`prepare_loading` reads them."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option to load checkpoints with in place of the stored one, such as data_dir=DIR or engine=reference",
    )
    parser.add_argument("--user-dir", metavar="DIR", help="your own fairseq plugin, if the checkpoints need one")


def prepare_loading(args: argparse.Namespace) -> Dict[str, Any]:
    """Import ``--user-dir``, if it is given; returns the options that ``--set`` gives, by name."""
    from omegaconf import OmegaConf

    for setting in args.set:
        if not setting.partition("=")[1]:
            raise UserError(f"--set {setting}: expected NAME=VALUE")
    try:
        overrides = OmegaConf.to_container(OmegaConf.from_dotlist(args.set))
    except Exception as error:  # YAML's and omegaconf's own
        raise UserError(f"--set {' '.join(args.set)}: can't be read ({first_sentence(error)})") from error
    if args.user_dir:
        import_user_dir(args.user_dir)
    return overrides


def add_split_argument(parser: argparse.ArgumentParser) -> None:
    """``--split``, by default valid; :func:`check_split` refuses the one that models are trained on."""
    parser.add_argument("--split", default="valid", help="held-out split (default: %(default)s)")


def check_split(split: Optional[str]) -> None:
    """Raise :class:`UserError` for a split that is not held out."""
    if split == "train":
        raise UserError("--split train: expected a held-out split, such as valid or test")


def add_video_arguments(parser: argparse.ArgumentParser) -> None:
    """``--weights`` and ``--encode-all``."""
    parser.add_argument(
        "--weights",
        type=Path,
        metavar="FILE",
        help="for videos: the weights that skiprnn-prepare video encoded the model's data with",
    )
    parser.add_argument(
        "--encode-all",
        action="store_true",
        help="for videos: encode every frame, instead of only those that the model asks for",
    )
