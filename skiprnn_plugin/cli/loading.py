"""What the commands on trained models share: the help on runs and checkpoints, and the options for loading them."""

import argparse
from pathlib import Path
from typing import Any, Collection, Dict, List, Optional, Sequence

from ..arguments import PATHS, UserError, as_option
from ..dials import DIALS
from ..reading import first_sentence
from ..runs.checkpoint import import_user_dir

RUN_HELP = (
    "a save-dir (its checkpoint_last.pt, its only *.log, or the best checkpoint of skiprnn-train), a checkpoint (*.pt) "
    "or a model of the zoo (zoo:NAME), which are evaluated again, a log of fairseq-train --log-format json (its last "
    "validation), or the JSON of an earlier skiprnn-report (*.json, all its runs)"
)
CHECKPOINT_HELP = "a checkpoint (*.pt), a save-dir for its last one, or a model of the zoo (zoo:NAME)"
HUB_HELP = (
    "a checkpoint (*.pt), a save-dir for its checkpoint_best.pt, or else its checkpoint_last.pt, or a model of the zoo "
    "(zoo:NAME)"
)


DIAL_OPTIONS: Dict[str, Dict[str, Any]] = {
    "update_threshold": {
        "type": float,
        "metavar": "V",
        "help": "the gate updates where its value is above this number (in training 0.5); a higher one skips more",
    },
    "min_skip": {
        "type": int,
        "metavar": "N",
        "help": "skip at least N steps after an update, whatever the gate says",
    },
    "max_skip": {
        "type": int,
        "metavar": "N",
        "help": "skip at most N steps after an update, whatever the gate says",
    },
}


def add_loading_arguments(parser: argparse.ArgumentParser, dials: Collection[str] = DIALS) -> None:
    """``--set``, ``--user-dir`` and the options of ``dials``, those of ``DIALS`` that have an effect in the command;
    :func:`prepare_loading` reads them."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option to load checkpoints with in place of the stored one, such as data_dir=DIR or engine=reference",
    )
    parser.add_argument("--user-dir", metavar="DIR", help="your own fairseq plugin, if the checkpoints need one")
    for name in dials:
        parser.add_argument(as_option(name), **DIAL_OPTIONS[name])


def prepare_loading(args: argparse.Namespace) -> Dict[str, Any]:
    """Import ``--user-dir``, if it is given; returns the options that ``--set`` and the dials give, by name. A command
    may have some of the dials, or none."""
    overrides = _read_settings(args.set)
    if args.user_dir:
        import_user_dir(args.user_dir)
    dials = {name: getattr(args, name) for name in DIALS if getattr(args, name, None) is not None}
    for name in dials:
        if name in overrides:
            raise UserError(f"{as_option(name)}: expected no --set {name} beside it, got both")
    return {**overrides, **dials}


def _read_settings(settings: Sequence[str]) -> Dict[str, Any]:
    """The options of ``--set``, by name. Paths are taken as they are, except null, other values are read as YAML: that
    would read ``on`` as True, and leave out what follows `` #``."""
    from omegaconf import OmegaConf

    paths, others = {}, []
    for setting in settings:
        name, separator, value = setting.partition("=")
        if not separator:
            raise UserError(f"--set {setting}: expected NAME=VALUE")
        if name.endswith(PATHS):
            paths[name] = None if value == "null" else value
        else:
            others.append(setting)
    try:
        return {**OmegaConf.to_container(OmegaConf.from_dotlist(others)), **paths}
    except Exception as error:  # YAML's and omegaconf's own
        raise UserError(f"--set {' '.join(others)}: can't be read ({first_sentence(error)})") from error


def add_sweep_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sweep",
        metavar="NAME=VALUES",
        help="evaluate every checkpoint with each of these values of update_threshold, min_skip or max_skip, such as "
        "update_threshold=0.3,0.5,0.7 or min_skip=0,1,2 or max_skip=none,20",
    )


def prepare_sweep(args: argparse.Namespace) -> List[Dict[str, Any]]:
    """What :func:`prepare_loading` returns, once for each value of ``--sweep``."""
    overrides = prepare_loading(args)
    if args.sweep is None:
        return [overrides]
    option, _, values = args.sweep.partition("=")
    name = option.replace("-", "_")
    read = float if name == "update_threshold" else _read_count
    try:
        values = [read(value.strip().lower()) for value in values.split(",")]
    except ValueError:
        values = []
    if name not in DIALS or not values:
        raise UserError(
            "--sweep: expected update_threshold=NUMBERS, or min_skip or max_skip=INTEGERS, with commas between them, "
            f"got {args.sweep}"
        )
    if name in overrides:
        raise UserError(f"--sweep: expected {name} nowhere else, got another value of it too")
    return [{**overrides, name: value} for value in dict.fromkeys(values)]


def _read_count(text: str) -> Optional[int]:
    return None if text == "none" else int(text)


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
