"""Checks of fairseq's own options. fairseq does not check them: a wrong value fails later or has no visible effect."""

import ast
import math
import os

from omegaconf import DictConfig, ListConfig

from .._fairseq.configuration import read_own_options
from ..arguments import as_option

SECTIONS = ("common", "dataset", "optimization", "checkpoint", "optimizer", "lr_scheduler", "ema")

# The smallest value of each option; None is allowed too, as some options have it as their default
LEAST = {
    "common": {"log_interval": 1},
    "dataset": {
        "batch_size": 1, "batch_size_valid": 1, "max_tokens": 1, "max_tokens_valid": 1, "num_workers": 0,
        "validate_interval": 1, "validate_interval_updates": 0,
    },
    "optimization": {"lr": 0, "update_freq": 1, "max_update": 0, "max_epoch": 0, "clip_norm": 0},
    "checkpoint": {"save_interval": 1, "save_interval_updates": 0},
}  # fmt: skip


def check_training_options(cfg: DictConfig) -> None:
    """Raise ValueError for the first option whose value makes no sense, by its name on the command line.

    ``cfg`` is the whole configuration of a run. Options that it lacks are not checked.
    """
    sections = {section: read_own_options(cfg, section) for section in SECTIONS}
    for section, options in sections.items():
        for name, given in options.items():
            values = tuple(given) if isinstance(given, (ListConfig, list, tuple)) else (given,)
            least = LEAST.get(section, {}).get(name)
            if least is not None and len(values) == 0:
                raise ValueError(f"{as_option(name)}: expected at least one number, got none")
            for value in values:
                if isinstance(value, float) and math.isnan(value):
                    raise ValueError(f"{as_option(name)}: expected a number, got nan")
                if least is not None and value is not None and not least <= value < math.inf:
                    raise ValueError(f"{as_option(name)}: expected a number of at least {least}, got {value}")
    for name in ("adam_betas", "adamax_betas"):
        _check_betas(name, sections["optimizer"].get(name))
    _check_splits(sections["dataset"])
    _check_restore_file(sections["checkpoint"])


def _check_betas(name: str, betas) -> None:
    """Raise ValueError if the option, which fairseq evaluates as Python, is not a pair of numbers in [0, 1)."""
    try:
        values = ast.literal_eval(betas) if isinstance(betas, str) else betas
        wrong = values is not None and not (len(values) == 2 and all(0 <= value < 1 for value in values))
    except (ValueError, SyntaxError, TypeError):
        wrong = True
    if wrong:
        raise ValueError(f"{as_option(name)}: expected two numbers in [0, 1), as '(0.9, 0.999)', got {betas!r}")


def _check_splits(dataset) -> None:
    train, valid = dataset.get("train_subset"), dataset.get("valid_subset")
    if train == "":
        raise ValueError("--train-subset: expected a split, got ''")
    if dataset.get("combine_valid_subsets") and valid != "valid":
        raise ValueError(f"--combine-valid-subsets: goes with --valid-subset valid alone, got {valid!r}")
    if valid is not None and not dataset.get("disable_validation"):
        splits = valid.split(",")
        if "" in splits or train in splits:  # training and validation would share an iterator
            raise ValueError(f"--valid-subset: expected held-out splits, as valid or valid,test, got {valid!r}")


def _check_restore_file(checkpoint) -> None:
    """Without this check fairseq would start a new run if the file does not exist."""
    path = checkpoint.get("restore_file")
    local = path not in (None, "checkpoint_last.pt") and "://" not in path and not checkpoint.get("checkpoint_suffix")
    if local and not os.path.isfile(path):
        raise ValueError(f"--restore-file: no such file: {path!r}")
