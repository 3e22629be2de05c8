"""Trained models in a program of one's own: ``from_pretrained`` and what it returns."""

import argparse
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union

import numpy as np
import torch
from fairseq import checkpoint_utils, file_utils, utils
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY
from omegaconf import DictConfig
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from .cli.command import first_sentence
from .tasks.sequence import drop_unknown_options

Sequences = Union[Tensor, np.ndarray, Sequence[Union[Tensor, np.ndarray]]]


class SkipRNNHub(nn.Module):
    """A trained model that takes arrays.

    Attributes:
        model: the fairseq model, in evaluation mode; move the hub as any module (``hub.to("cuda")``).
        cfg: the stored configuration.
        task: the fairseq task, without its data.
    """

    def __init__(self, model, cfg, task):
        super().__init__()
        self.model = model.eval()
        self.cfg = cfg
        self.task = task

    def train(self, mode: bool = True):
        """Stays in evaluation mode; to go on training, use ``model``."""
        return super().train(False)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def predict(self, arrays: Sequences, batch_size: int = 256) -> np.ndarray:
        """Class probabilities, or the numbers themselves for regression, float32 [N, output_size].

        Args:
            arrays: N sequences, [T, D] each with a T of its own, or one array [N, T, D]. One of no steps gets what the
                model predicts from its initial state.
            batch_size: sequences that go through the model at once.
        """
        if self.task.predicts not in ("classes", "numbers"):
            raise ValueError(
                f"task {self.cfg.task._name}: expected its attribute predicts to be 'classes' or 'numbers', "
                f"got {self.task.predicts!r}"
            )
        predictions = []
        for output in self._run(arrays, batch_size):
            values = output.prediction.float()
            predictions.append(values.softmax(-1) if self.task.predicts == "classes" else values)
        return torch.cat(predictions).cpu().numpy() if predictions else np.zeros((0, self.task.output_size), np.float32)

    def used_samples(self, arrays: Sequences, batch_size: int = 256) -> List[np.ndarray]:
        """Where the model updated its state: bool [T] for each sequence.

        Of a bidirectional model bool [2, T], forward and backward, both in the order of the input. Arguments are those
        of :meth:`predict`.
        """
        used = []
        for output in self._run(arrays, batch_size):
            directions = self.model.num_directions
            updates = output.updates.unflatten(1, (directions, output.updates.shape[1] // directions)) > 0
            lengths = (output.steps // directions).tolist()
            rows = [row[:, :length].cpu().numpy() for row, length in zip(updates, lengths)]
            used += rows if directions == 2 else [row[0] for row in rows]
        return used

    def _run(self, arrays: Sequences, batch_size: int):
        """The model's outputs for each batch, in the order of the sequences."""
        if batch_size < 1:
            raise ValueError(f"batch_size: expected at least 1, got {batch_size}")
        sequences = self._check(arrays)
        for start in range(0, len(sequences), batch_size):
            batch = sequences[start : start + batch_size]
            with torch.no_grad():
                yield self.model(
                    pad_sequence(batch, batch_first=True).to(self.device),
                    torch.tensor([len(sequence) for sequence in batch], device=self.device),
                    # so that models which draw make the same draws each time, however batches are cut
                    torch.arange(start, start + len(batch), device=self.device),
                )

    def _check(self, arrays: Sequences) -> List[Tensor]:
        width, weight = self.task.input_size, next(self.model.parameters())
        if isinstance(arrays, (Tensor, np.ndarray)) and arrays.ndim != 3:
            raise ValueError(
                f"arrays: expected a list of arrays [T, {width}] or one [N, T, {width}], got shape "
                f"{tuple(arrays.shape)}"
            )
        sequences = []
        for index, array in enumerate(arrays):
            tensor = torch.as_tensor(array)
            if tensor.dim() != 2 or tensor.shape[1] != width:
                raise ValueError(f"arrays[{index}]: expected shape [T, {width}], got {tuple(tensor.shape)}")
            sequences.append(tensor.to(weight.dtype))
        return sequences


def from_pretrained(
    path: Union[str, Path],
    checkpoint_file: Optional[str] = None,
    user_dir: Optional[str] = None,
    **overrides: Any,
) -> SkipRNNHub:
    """Load a trained model; its training data is not needed.

    Args:
        path: a checkpoint, or a folder (fairseq's save-dir) that holds it.
        checkpoint_file: its name in that folder; None for ``checkpoint_best.pt``, or else ``checkpoint_last.pt``.
        user_dir: the folder of a fairseq plugin of your own, if the model was trained with one.
        overrides: options to load the model with in place of the stored ones.

    Raises FileNotFoundError if there is no such file, and ValueError if it can't be loaded.
    """
    if user_dir is not None:
        utils.import_user_module(argparse.Namespace(user_dir=str(user_dir)))
    loaded = load_model(_find_checkpoint(path, checkpoint_file), overrides or None)
    return SkipRNNHub(loaded.model, loaded.cfg, loaded.task)


def _find_checkpoint(path: Union[str, Path], checkpoint_file: Optional[str]) -> Path:
    if "://" in str(path):
        path = file_utils.load_archive_file(str(path))
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder")
    if not path.is_dir():
        return path
    names = [checkpoint_file] if checkpoint_file is not None else ["checkpoint_best.pt", "checkpoint_last.pt"]
    for name in names:
        if (path / name).exists():
            return path / name
    raise FileNotFoundError(f"{path}: holds no {' or '.join(names)}")


class LoadedModel(NamedTuple):
    """What a checkpoint holds: the model, its configuration and task, and the updates it was trained for."""

    model: nn.Module
    cfg: Any
    task: Any
    num_updates: int


def load_model(path: Path, overrides: Optional[Dict[str, Any]] = None) -> LoadedModel:
    """Load a checkpoint; ValueError, in one line that names ``path``, if that can't be done."""
    try:
        state = checkpoint_utils.load_checkpoint_to_cpu(str(path), arg_overrides=overrides)
        unknown = _unknown_parts(state["cfg"])
        if not unknown:
            state["cfg"].task = drop_unknown_options("task", state["cfg"].task, TASK_DATACLASS_REGISTRY)
            num_updates = state["optimizer_history"][-1]["num_updates"]
            models, cfg, task = checkpoint_utils.load_model_ensemble_and_task([str(path)], state=state)
    except Exception as error:  # a file can be broken, or be something else, in any way
        raise ValueError(f"{path}: can't be loaded as a fairseq checkpoint ({first_sentence(error)})") from error
    if unknown:
        raise ValueError(f"{path}: unknown {unknown}; --user-dir (user_dir) names the folder of the plugin that has it")
    stored = {name for part in cfg.values() if isinstance(part, DictConfig) for name in part}
    for name in set(overrides or ()) - stored:
        raise ValueError(f"{name}: none of the checkpoint's options, which can be overridden")
    return LoadedModel(models[0], cfg, task, num_updates)


def _unknown_parts(cfg) -> str:
    known = {
        "task": TASK_REGISTRY,
        "model": {*MODEL_REGISTRY, *ARCH_MODEL_REGISTRY},
        "criterion": CRITERION_REGISTRY,
    }
    return ", ".join(f"{part} {cfg[part]['_name']!r}" for part in known if cfg[part]["_name"] not in known[part])
