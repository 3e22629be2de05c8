"""Makes a model of the zoo, skiprnn_plugin/zoo/NAME.pt, from a trained checkpoint:

    python -m recipes.zoo CHECKPOINT NAME [--split SPLIT] [--set data_dir=DIR]

The file has what loading needs: the weights, the configuration (paths are cut to the names of the files and folders)
and what the task keeps, such as class names and dictionaries; but not the optimiser's state and the history of the
training. The weights are stored in half precision if, on the whole held-out split, every decision to update or to skip
stays the same. The file is at most 2 MB long. It is loaded and compared with the checkpoint before it is moved to its
place.
"""

import argparse
import io
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np
import torch
from fairseq.checkpoint_utils import load_checkpoint_to_cpu
from omegaconf import OmegaConf

from skiprnn_plugin import zoo
from skiprnn_plugin._fairseq.configuration import read_options
from skiprnn_plugin.arguments import UserError
from skiprnn_plugin.cli.command import run_command
from skiprnn_plugin.cli.loading import add_loading_arguments, check_split, prepare_loading
from skiprnn_plugin.dials import DIALS
from skiprnn_plugin.runs.checkpoint import iterate_batches, load_checkpoint, run_model
from skiprnn_plugin.runs.find import find_named_checkpoint
from skiprnn_plugin.writing import write_whole

PROGRAM = "python -m recipes.zoo"
LIMIT = 2_000_000  # bytes of a file
PRECISIONS = {"half": torch.float16, "single": torch.float32}


class Outcome(NamedTuple):
    """What a model does with a split.

    Attributes:
        split: its name.
        paths: the task's options that name a file or folder.
        steps: how many decisions the gates make.
        updates: those that are updates, a bool array for each batch.
        predictions: an array for each batch.
    """

    split: str
    paths: Dict[str, str]
    steps: List[int]
    updates: List[np.ndarray]
    predictions: List[np.ndarray]


def main(argv: Optional[Sequence[str]] = None) -> int:
    description, _, _ = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser(prog=PROGRAM, description=description.rstrip(":"))
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="a checkpoint (*.pt), or a save-dir for its last one")
    parser.add_argument("name", metavar="NAME", help="the model's name, of small letters, digits and -")
    parser.add_argument("--split", help="held-out split to compare on (default: the one that skiprnn-report takes)")
    parser.add_argument(
        "--folder", type=Path, default=zoo.FOLDER, metavar="DIR", help="where to write NAME.pt (default: the package)"
    )
    add_loading_arguments(parser, [])
    return run_command(PROGRAM, make, parser.parse_args(argv))


def make(args: argparse.Namespace) -> str:
    """Write the model; returns lines that say what was compared."""
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", args.name):
        raise UserError(f"NAME: expected small letters, digits and -, got {args.name!r}")
    if not args.folder.is_dir():
        raise UserError(f"--folder: no such folder: {args.folder}")
    check_split(args.split)
    checkpoint, overrides = find_named_checkpoint(args.checkpoint), prepare_loading(args)
    if overrides.keys() & DIALS.keys():
        raise UserError(f"--set: expected no {', '.join(DIALS)}, as the file keeps those of the checkpoint")
    expected = try_model(checkpoint, args.split, overrides)
    decisions = sum(expected.steps)
    lines = []
    for precision, dtype in PRECISIONS.items():
        content = as_bytes(reduce_state(load_checkpoint_to_cpu(str(checkpoint)), dtype))
        with tempfile.TemporaryDirectory() as folder:
            candidate = Path(folder) / "checkpoint.pt"
            candidate.write_bytes(content)
            found = try_model(candidate, args.split, {**expected.paths, **overrides})
        changed = count_changes(expected.updates, found.updates)
        difference = max(np.abs(a - b).max() for a, b in zip(expected.predictions, found.predictions))
        lines.append(
            f"{precision} precision: {changed:,} of {decisions:,} decisions on split {found.split} change, outputs by "
            f"at most {difference:.1e}; {len(content):,} bytes"
        )
        if changed == 0:
            break
    else:
        raise UserError(f"{checkpoint}: expected the same decisions from the same weights, got others")
    if len(content) > LIMIT:
        raise UserError(f"{checkpoint}: expected a file of at most {LIMIT:,} bytes; " + "; ".join(lines))
    path = args.folder / f"{args.name}.pt"
    write_whole(path, content)
    return "\n".join([*lines, f"{path}: {precision} precision"])


def try_model(checkpoint: Path, split: Optional[str], overrides: Dict[str, Any]) -> Outcome:
    loaded = load_checkpoint(checkpoint, split, overrides)
    options = read_options(loaded.cfg.task)
    paths = {name: value for name, value in options.items() if isinstance(value, str) and os.sep in value}
    outcome = Outcome(loaded.split, paths, [], [], [])
    for sample in iterate_batches(loaded):
        output, updates = run_model(loaded, sample)
        outcome.steps.append(int(output.steps.sum()))
        outcome.updates.append(updates)
        outcome.predictions.append(output.prediction.cpu().numpy())
    return outcome


def count_changes(expected: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> int:
    return sum(int((a != b).sum()) for a, b in zip(expected, found))


def reduce_state(state: Dict[str, Any], dtype: torch.dtype) -> Dict[str, Any]:
    """The part of a checkpoint that loading its model needs, with weights of another type and without paths."""
    epoch = state["extra_state"]["train_iterator"]["epoch"]
    history = {**state["optimizer_history"][-1], "lr_scheduler_state": {}}
    return {
        "args": None,
        "cfg": without_folders(OmegaConf.to_container(state["cfg"])),
        "model": {
            name: weights.to(dtype) if weights.is_floating_point() else weights
            for name, weights in state["model"].items()
        },
        "criterion": None,
        "optimizer_history": [history],
        "task_state": state["task_state"],
        "extra_state": {"train_iterator": {"epoch": epoch, "iterations_in_epoch": 0}},
        "last_optimizer_state": None,
    }


def without_folders(options: Any) -> Any:
    """A configuration in which every path is cut to the name of its file or folder."""
    if isinstance(options, dict):
        return {name: without_folders(value) for name, value in options.items()}
    if isinstance(options, (list, tuple)):
        return type(options)(map(without_folders, options))
    return Path(options).name if isinstance(options, str) and os.sep in options else options


def as_bytes(state: Dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


if __name__ == "__main__":
    sys.exit(main())
