"""Load a checkpoint and evaluate it on a held-out split, as ``fairseq-train``'s own validation does."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Union

from ..arguments import UserError, as_option, as_option_errors
from ..dials import DIALS
from ..reading import describe_os_error, first_sentence, show_progress
from .find import is_checkpoint
from .logs import read_log
from .rows import reported_split
from .run import DATA, Run, collect_options
from .saved import read_saved


@dataclass
class Loaded:
    """A checkpoint's model in evaluation mode, and what it was trained with.

    Attributes:
        path: the checkpoint.
        model: the fairseq model, on ``device``.
        cfg: the stored configuration.
        options: see :class:`skiprnn_plugin.runs.run.Run`.
        task: the fairseq task.
        dataset: the held-out split.
        split: its name.
        device: the GPU if there is one, unless the run was told ``--cpu``.
    """

    path: Path
    model: Any
    cfg: Any
    options: Dict[str, Any]
    task: Any
    dataset: Any
    split: str
    device: Any


def import_user_dir(user_dir: str) -> None:
    """Register a user's own plugin, so that its checkpoints load."""
    from fairseq import utils

    try:
        utils.import_user_module(argparse.Namespace(user_dir=user_dir))
    except Exception as error:  # the plugin's code can fail in any way
        raise UserError(f"--user-dir {user_dir}: can't be imported ({first_sentence(error)})") from error


def load_checkpoint(path: Path, split: Optional[str], overrides: Dict[str, Any], any_task: bool = False) -> Loaded:
    """Load the model, the task and a held-out split; a checkpoint that can't be loaded is a :class:`UserError`.

    ``split`` None means the split that the paper's tables of the task report. ``overrides`` are options in place
    of the stored ones. ``any_task`` allows other tasks than a :class:`skiprnn_plugin.tasks.sequence.SequenceTask`.
    """
    import torch

    from ..hub import load_model

    try:
        with as_option_errors(DIALS):
            model, cfg, task, num_updates = load_model(path, overrides)
    except ValueError as error:
        raise UserError(str(error)) from error
    options = {**collect_options(cfg), "num_updates": num_updates}
    if not any_task:
        check_sequences(path, task, options["task"])
    split = split or reported_split(options)
    if split == cfg.dataset.train_subset:
        raise UserError(f"--split: expected a held-out split, got {split}, which {path} was trained on")
    try:
        task.load_dataset(split)
    except (OSError, KeyError, ValueError) as error:
        raise UserError(f"{path}: can't load its held-out split {split!r} ({first_sentence(error)})") from error
    fingerprint = getattr(task, "data_fingerprint", None)
    if fingerprint is not None:
        options[DATA] = fingerprint
    device = torch.device("cuda" if torch.cuda.is_available() and not cfg.common.cpu else "cpu")
    return Loaded(path, model.eval().to(device), cfg, options, task, task.dataset(split), split, device)


def load_named_hub(path: Union[str, Path], overrides: Dict[str, Any]):
    """The model alone, without any data (see :func:`skiprnn_plugin.hub.from_pretrained`); :class:`UserError` if its
    task is not one of sequences."""
    from ..hub import from_pretrained

    try:
        with as_option_errors(DIALS):
            hub = from_pretrained(path, **overrides)
    except OSError as error:
        raise UserError(describe_os_error(error)) from error
    except (TypeError, ValueError) as error:
        raise UserError(str(error)) from error
    check_sequences(path, hub.task, hub.cfg.task._name)
    return hub


def check_sequences(path: Union[str, Path], task, name: str) -> None:
    """Raise :class:`UserError` for a task, of this name, that does not say how its sequences are read and drawn."""
    from ..predictions import is_sequence_task

    if not is_sequence_task(task):
        raise UserError(
            f"{path}: expected a model of a SequenceTask, which says how its sequences are read and drawn, got task "
            f"{name}; for any model there are skiprnn-report, skiprnn-plot tradeoff and skiprnn-plot curves"
        )


def iterate_batches(loaded: Loaded):
    """The whole held-out split on the model's device, in the batches of the run's own validation."""
    from fairseq import utils

    cfg = loaded.cfg
    batches = loaded.task.get_batch_iterator(
        loaded.dataset,
        max_tokens=cfg.dataset.max_tokens_valid,
        max_sentences=cfg.dataset.batch_size_valid,
        max_positions=utils.resolve_max_positions(loaded.task.max_positions(), loaded.model.max_positions()),
        ignore_invalid_inputs=cfg.dataset.skip_invalid_size_inputs_valid_test,
        required_batch_size_multiple=cfg.dataset.required_batch_size_multiple,
        seed=cfg.common.seed,
    ).next_epoch_itr(shuffle=False, set_dataset_epoch=False)
    for sample in show_progress(batches, str(loaded.path)):
        yield _to_device(loaded, sample)


def _to_device(loaded: Loaded, sample):
    from fairseq import utils

    return utils.move_to_cuda(sample) if loaded.device.type == "cuda" else sample


def run_model(loaded: Loaded, sample):
    """The model's output for a batch, and where it updated its state, bool [B, directions, T]."""
    import torch

    sample = _to_device(loaded, sample)
    with torch.no_grad():
        output = loaded.model(**sample["net_input"])
    size, steps = sample["net_input"]["x"].shape[:2]
    if output.updates.shape[-1] % steps:
        raise UserError(
            f"{loaded.path}: expected a model that decides at each of {steps} steps, it decides at "
            f"{output.updates.shape[-1]}"
        )
    return output, (output.updates.reshape(size, -1, steps) > 0).cpu().numpy()


def measure_errors(loaded: Loaded) -> Sequence[float]:
    """The root mean square error of each number that a model predicts, in its unit, over the whole held-out split."""
    import numpy as np

    squares = [
        (run_model(loaded, sample)[0].prediction.cpu() - sample["target"].cpu()).double().square()
        for sample in iterate_batches(loaded)
    ]
    return np.concatenate(squares).mean(0) ** 0.5 * loaded.task.target_scale


def evaluate(loaded: Loaded) -> Run:
    """Run the whole held-out split through the model. Updates that the criterion does not log are counted here."""
    import torch
    from fairseq.logging import metrics

    from ..criterions.listening import listen

    task, model = loaded.task, loaded.model
    criterion = task.build_criterion(loaded.cfg.criterion).eval()
    logged, updates, steps = [], 0.0, 0
    for sample in iterate_batches(loaded):
        with torch.no_grad(), listen(model) as calls:
            logged.append(task.valid_step(sample, model, criterion)[2])
        updates += sum(float(call.count.sum()) for call in calls)
        steps += sum(int(call.steps.sum()) for call in calls)
    sequences = int(sum(output["nsentences"] for output in logged))
    with metrics.aggregate(new_root=True) as aggregator:
        task.reduce_metrics(logged, criterion)
        numbers = {name: float(value) for name, value in aggregator.get_smoothed_values().items()}
    if "update_fraction" not in numbers:
        # A model without Skip RNN modules updates at every step
        numbers["update_fraction"] = updates / steps if steps > 0 else 1.0
        if steps > 0:
            numbers["updates"] = updates / max(sequences, 1)
    return Run(loaded.path, loaded.options, numbers, sequences)


def sweep_runs(files: Sequence[Path], split: Optional[str], settings: Sequence[Dict[str, Any]]) -> List[Run]:
    """The runs of files with each of several overrides. Raises :class:`UserError` for several overrides, or for dials,
    of what is not a checkpoint."""
    options = ["sweep"] if len(settings) > 1 else [name for name in DIALS if name in settings[0]]
    for file in files:
        if options and not is_checkpoint(file):
            raise UserError(f"{as_option(options[0])}: expected checkpoints, which can be evaluated again, got {file}")
    return [run for overrides in settings for run in read_runs(files, split, overrides)]


def read_runs(files: Sequence[Path], split: Optional[str], overrides: Dict[str, Any]) -> List[Run]:
    """The runs of files, on a held-out split: checkpoints, which are evaluated again, logs, and the JSON of a report.

    For ``split`` and ``overrides`` see :func:`load_checkpoint`.
    """
    runs: List[Run] = []
    for file in files:
        if is_checkpoint(file):
            runs.append(evaluate(load_checkpoint(file, split, overrides, any_task=True)))
        else:
            runs += read_saved(file, split) if file.suffix == ".json" else [read_log(file, split)]
    return runs
