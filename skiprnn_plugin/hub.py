"""Trained models in a program of one's own: ``from_pretrained`` and what it returns."""

import argparse
import itertools
import time
from pathlib import Path
from typing import Any, Iterable, Iterator, List, Optional, Sequence, Union

import numpy as np
import torch
from fairseq import utils
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from .checkpoints import LoadedModel, find_checkpoint, load_model
from .predictions import CRITERIONS, Prediction, as_probabilities
from .reading import first_sentence

__all__ = ["LoadedModel", "Prediction", "SkipRNNHub", "from_pretrained", "load_model"]

Sequences = Union[Tensor, np.ndarray, Sequence[Union[Tensor, np.ndarray, str]]]


class SkipRNNHub(nn.Module):
    """A trained model that takes arrays, or what else its task can ``encode``.

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

    @property
    def reads_words(self) -> bool:
        """Whether the model reads words, by an embedding, and not numbers."""
        return getattr(self.model, "embedding", None) is not None

    @property
    def class_names(self) -> List[str]:
        """Of the classes that the model predicts, or else their numbers."""
        return list(map(str, self.task.class_names or range(self.task.output_size)))

    def predict(self, arrays: Sequences, batch_size: int = 256) -> Union[np.ndarray, List[np.ndarray]]:
        """Class probabilities, or the numbers themselves for regression, float32 [N, output_size].

        Of a task that predicts at every step a list of N arrays, float32 [T, output_size].

        Args:
            arrays: N sequences, each as :meth:`encode` takes it: arrays [T, D] with a T of their own, or whatever else
                the task reads, such as texts or images; or one array of them all, [N, T, D]. One of no steps gets what
                the model predicts from its initial state.
            batch_size: sequences that go through the model at once.
        """
        if self.task.predicts not in CRITERIONS:
            kinds = " or ".join(map(repr, CRITERIONS))
            raise ValueError(
                f"task {self.cfg.task._name}: expected its attribute predicts to be {kinds}, got {self.task.predicts!r}"
            )
        values = [prediction.values for prediction in self.run(self._encode_all(arrays), batch_size)]
        if self.task.per_step:
            return values
        return np.stack(values) if values else np.zeros((0, self.task.output_size), np.float32)

    def used_samples(self, arrays: Sequences, batch_size: int = 256) -> List[np.ndarray]:
        """Where the model updated its state: bool [T] for each sequence.

        Of a bidirectional model bool [2, T], forward and backward, both in the order of the input. Arguments are those
        of :meth:`predict`.
        """
        return [prediction.used for prediction in self.run(self._encode_all(arrays), batch_size)]

    def run(self, encoded: Iterable[Tensor], batch_size: int = 256) -> Iterator[Prediction]:
        """What the model makes of each sequence, one after the other: ``hub.run(map(hub.encode, texts))``.

        Args:
            encoded: what :meth:`encode` returned, taken as it is needed.
            batch_size: as of :meth:`predict`.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size: expected at least 1, got {batch_size}")
        encoded, start = iter(encoded), 0
        while batch := list(itertools.islice(encoded, batch_size)):
            yield from self._run_batch(batch, start)
            start += len(batch)

    def encode(self, raw: Any) -> Tensor:
        """A sequence as the model reads it: [T, D], or token ids, int64 [T].

        Args:
            raw: what the task's ``encode`` takes; an array [T, D] of any real numbers if it has none of its own. Where
                the model reads words, their numbers too.

        Raises ValueError if it is not such a sequence.
        """
        expected = "a text or token ids [T]" if self.reads_words else f"shape [T, {self.task.input_size}]"
        is_encoded = self.reads_words and not isinstance(raw, str)
        try:
            raw_array = _as_plain_array(raw) if isinstance(raw, np.ndarray) else raw
            tensor = torch.as_tensor(raw_array if is_encoded else _as_plain_array(self.task.encode(raw_array)))
        except (TypeError, RuntimeError) as error:  # not an array
            raise ValueError(f"expected {expected}, got {type(raw).__name__} ({first_sentence(error)})") from error
        if self.reads_words:
            if tensor.dim() != 1 or (len(tensor) and not _is_integer(tensor)):
                raise ValueError(f"expected {expected}, integers, got {tensor.dtype} {tuple(tensor.shape)}")
            return self._check_words(tensor.long())
        if tensor.dim() != 2 or tensor.shape[1] != self.task.input_size:
            raise ValueError(f"expected {expected}, got {tuple(tensor.shape)}")
        if tensor.is_complex():
            raise ValueError(f"expected {expected}, real numbers, got {tensor.dtype}")
        return tensor.to(next(self.model.parameters()).dtype)

    def _check_words(self, numbers: Tensor) -> Tensor:
        known = self.model.embedding.num_embeddings
        wrong = numbers[(numbers < 0) | (numbers >= known)]
        if len(wrong):
            raise ValueError(f"expected token ids from 0 to {known - 1}, got {wrong[0]}")
        return numbers

    def _encode_all(self, arrays: Sequences) -> Iterator[Tensor]:
        """As :meth:`encode`; a ValueError names the argument and the sequence."""
        if isinstance(arrays, str) or getattr(arrays, "ndim", 1) == 0:
            raise ValueError(f"arrays: expected a list of sequences, got one {type(arrays).__name__}")
        takes_arrays = not self.reads_words and getattr(self.task, "takes_arrays", False)
        if takes_arrays and isinstance(arrays, (Tensor, np.ndarray)) and arrays.ndim != 3:
            width = self.task.input_size
            raise ValueError(
                f"arrays: expected a list of arrays [T, {width}] or one [N, T, {width}], got shape "
                f"{tuple(arrays.shape)}"
            )
        for index, raw in enumerate(arrays):
            try:
                yield self.encode(raw)
            except ValueError as error:
                raise ValueError(f"arrays[{index}]: {error}") from error

    def _run_batch(self, batch: List[Tensor], start: int) -> Iterator[Prediction]:
        began = time.perf_counter()
        with torch.no_grad():
            output = self.model(
                pad_sequence(batch, batch_first=True).to(self.device),
                torch.tensor([len(sequence) for sequence in batch], device=self.device),
                # so that models which draw make the same draws each time, however batches are cut
                torch.arange(start, start + len(batch), device=self.device),
            )
        values = as_probabilities(output.prediction.float(), self.task.predicts).cpu().numpy()
        directions = getattr(self.model, "num_directions", 1)
        updates = output.updates.flatten(1)  # a model of the user's may have [B, T]
        updates = updates.unflatten(1, (directions, updates.shape[1] // directions)) > 0
        lengths = (output.steps // directions).tolist()
        used = [row[:, :length].numpy() for row, length in zip(updates.cpu(), lengths)]
        seconds = (time.perf_counter() - began) / len(batch)
        for numbers, length, row in zip(values, lengths, used):
            numbers = numbers[:length] if self.task.per_step else numbers
            yield Prediction(numbers, self._label(numbers), row if directions == 2 else row[0], seconds)

    def _label(self, values: np.ndarray) -> Optional[str]:
        if self.task.predicts not in ("classes", "labels") or values.size == 0:
            return None
        return self.class_names[values.argmax() % values.shape[-1]]


def _as_plain_array(raw: Any) -> Any:
    """An array, or what converts itself to one, with the memory layout and type that torch takes; else ``raw`` itself.

    torch refuses another byte order, negative strides and floats of more than 64 bits, and warns of read-only arrays.
    """
    if isinstance(raw, Tensor) or not hasattr(raw, "__array__"):
        return raw
    array = np.asarray(raw)
    is_long = array.dtype.kind == "f" and array.itemsize > 8
    return np.require(array, np.float64 if is_long else array.dtype.newbyteorder("="), ["C", "ALIGNED", "WRITEABLE"])


def _is_integer(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


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
    loaded = load_model(find_checkpoint(path, checkpoint_file), overrides or None)
    return SkipRNNHub(loaded.model, loaded.cfg, loaded.task)
