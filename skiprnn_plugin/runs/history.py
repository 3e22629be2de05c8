"""All validations of a run: from its log, or from the checkpoint of ``skiprnn-train`` or an estimator."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List

from ..arguments import UserError
from .find import is_checkpoint
from .logs import scan_log
from .run import DATA, Run, collect_options


@dataclass
class History(Run):
    """A run with all its validations.

    Attributes:
        validations: the metrics of each validation, in the order of ``num_updates``; from a log also its ``epoch``.
    """

    validations: List[Dict[str, float]]


def read_history(path: Path, split: str) -> History:
    """The validations in a log, or in a checkpoint of ``skiprnn-train`` or an estimator, which has no log."""
    return _read_checkpoint(path, split) if is_checkpoint(path) else _read_log(path, split)


def _read_checkpoint(path: Path, split: str) -> History:
    from ..checkpoints import read_state

    try:
        state = read_state(path)
    except (OSError, ValueError) as error:
        raise UserError(str(error)) from error
    extra = state["extra_state"]
    validations = extra.get("history")
    if not validations:
        expected = "a log of fairseq-train, or a model of skiprnn-train or an estimator"
        raise UserError(f"{path}: expected {expected}, got another checkpoint")
    if split != "valid":
        raise UserError(f"--split: expected valid, the split that {path} was validated on, got {split}")
    # An estimator stores a fingerprint of its recordings. For skiprnn-train the task's statistics of the split train
    # tell data apart too, because its division has another seed than its training
    data = extra.get("data") or str(state.get("task_state", {}).get("features"))
    options = {**collect_options(state["cfg"]), DATA: data}
    return History(path, options, validations[-1], None, validations)


def _read_log(path: Path, split: str) -> History:
    """Where a resumed run repeats validations, the later ones count."""
    log = scan_log(path, split)
    validations: List[Dict[str, float]] = []
    try:
        for line in log.validations:
            metrics = log.numbers(line)
            while validations and validations[-1]["num_updates"] >= metrics["num_updates"]:
                validations.pop()
            validations.append({**metrics, "epoch": json.loads(line)["epoch"]})
    except (ValueError, KeyError) as error:
        raise UserError(f"{path}: a damaged log ({type(error).__name__} in a validation)") from error
    return History(path, log.options, metrics, None, validations)
