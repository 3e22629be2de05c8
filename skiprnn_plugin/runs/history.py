"""All validations of runs: from a log, from the checkpoint of ``skiprnn-train`` or an estimator, or from a report that
keeps them."""

import json
from pathlib import Path
from typing import Dict, List

from ..arguments import UserError
from .find import is_checkpoint
from .logs import scan_log
from .run import DATA, History, collect_options
from .saved import read_saved


def read_histories(path: Path, split: str) -> List[History]:
    """The validations in a log; in a checkpoint of ``skiprnn-train`` or an estimator, which has no log; or of the runs
    in a report (``*.json``) that keeps them."""
    if path.suffix != ".json":
        return [_read_checkpoint(path, split) if is_checkpoint(path) else read_log_history(path, split)]
    _check_is_valid(path, split)
    histories = [run for run in read_saved(path, None) if isinstance(run, History)]
    if not histories:
        raise UserError(f"{path}: keeps no validations; expected a report that does, such as docs/results/adding.json")
    return histories


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
    _check_is_valid(path, split)
    # An estimator stores a fingerprint of its recordings. For skiprnn-train the task's statistics of the split train
    # tell data apart too, because its division has another seed than its training
    data = extra.get("data") or str(state.get("task_state", {}).get("features"))
    options = {**collect_options(state["cfg"]), DATA: data}
    return History(path, options, validations[-1], None, validations)


def _check_is_valid(path: Path, split: str) -> None:
    if split != "valid":
        raise UserError(f"--split: expected valid, the split that {path} was validated on, got {split}")


def read_log_history(path: Path, split: str) -> History:
    """The validations in a log. Where a resumed run repeats validations, the later ones count."""
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
