"""Trained models in your own program: ``from_pretrained`` loads one, and :class:`SkipRNNHub` predicts with it."""

from ._fairseq import required  # noqa: F401

# isort: split
import argparse
import copy
import itertools
import time
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from fairseq import utils
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from .arguments import check_size
from .checkpoints import LoadedModel, find_checkpoint, load_model
from .predictions import CRITERIONS, Prediction, as_probabilities, is_sequence_task
from .reading import first_sentence

__all__ = ["LoadedModel", "Prediction", "PredictingStream", "SkipRNNHub", "from_pretrained", "load_model"]

Sequences = Union[Tensor, np.ndarray, Sequence[Union[Tensor, np.ndarray, str]]]


class SkipRNNHub(nn.Module):
    """A trained model that takes arrays, or whatever its task can ``encode``, such as texts or images.

    Like any module, it can be moved to a device: ``hub.to("cuda")``. A model of a task without sequences to classify or
    to predict numbers for, such as translation, is loaded too, but has no predictions: the methods that make them raise
    a ValueError.

    Attributes:
        model: the fairseq model, in evaluation mode.
        cfg: the stored configuration.
        task: the fairseq task, without its data.
    """

    def __init__(self, model, cfg, task):
        super().__init__()
        self.model = model.eval()
        self.cfg = cfg
        self.task = task

    def train(self, mode: bool = True):
        """Stay in evaluation mode, whatever ``mode`` is. To train further, use ``model``."""
        return super().train(False)

    def check_task(self) -> None:
        """Raises ValueError unless the task is one whose models can predict here."""
        if not is_sequence_task(self.task):
            model = type(self.model)
            raise ValueError(
                f"task {self.cfg.task._name}: expected a SequenceTask, whose models the hub lets predict; a model of "
                f"this task is hub.model, or what {model.__module__}.{model.__name__}.from_pretrained returns"
            )

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def reads_words(self) -> bool:
        """Whether the model reads token ids, which it turns into vectors by an embedding."""
        return getattr(self.model, "embedding", None) is not None

    @property
    def input_kinds(self) -> Tuple[str, ...]:
        """What a user's sequences come as, see :class:`skiprnn_plugin.tasks.presentation.Inputs`."""
        inputs = getattr(self.task, "inputs", None)  # a task that is not a SequenceTask may lack them
        if inputs is None or inputs.kinds is None:
            return ("texts", "token_ids") if self.reads_words else ("numbers",)
        return tuple(inputs.kinds)

    @property
    def class_names(self) -> List[str]:
        """The names of the classes that the model predicts, or their numbers if they have no names."""
        self.check_task()
        return list(map(str, self.task.class_names or range(self.task.output_size)))

    def predict(self, arrays: Sequences, batch_size: int = 256) -> Union[np.ndarray, List[np.ndarray]]:
        """Probabilities of classes or labels, or the predicted numbers for regression, float32 [N, output_size].

        If the task predicts numbers in a unit of their own, as ``feature_regression`` does, they are float64.

        If the task predicts at every step, the result is a list of N arrays, float32 [T, output_size].

        Args:
            arrays: a list of N sequences that :meth:`encode` takes: arrays [T, D], whose T may differ, or whatever else
                the task reads, such as texts or images; or one array [N, T, D]. For a sequence of no steps the model
                predicts from its initial state.
            batch_size: how many sequences the model reads at once.
        """
        self.check_task()
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
        """At which steps the model updated its state: bool [T] for each sequence.

        For a bidirectional model bool [2, T], forward and backward, both in the order of the input. The arguments are
        those of :meth:`predict`.
        """
        return [prediction.used for prediction in self.run(self._encode_all(arrays), batch_size)]

    def run(self, encoded: Iterable[Tensor], batch_size: int = 256) -> Iterator[Prediction]:
        """Yield a :class:`Prediction` for each sequence: ``hub.run(map(hub.encode, texts))``.

        Args:
            encoded: sequences from :meth:`encode`; they are taken from the iterable one batch at a time.
            batch_size: as in :meth:`predict`.
        """
        self.check_task()
        check_size("batch_size", batch_size)
        encoded, start = iter(encoded), 0
        while batch := list(itertools.islice(encoded, batch_size)):
            yield from self._run_batch(batch, start)
            start += len(batch)

    def stream(
        self,
        batch_size: int = 1,
        min_skip: Optional[int] = None,
        max_skip: Optional[int] = None,
        seeds: Optional[Sequence[int]] = None,
    ) -> "PredictingStream":
        """Sequences that the model reads sample by sample, with a prediction at any time.

        Args:
            batch_size: number of sequences, each of which has a time of its own.
            min_skip: how many steps are skipped after an update at least, whatever the gate says; None for what the
                model was loaded with, which is 0 unless ``from_pretrained(..., min_skip=...)`` says otherwise.
            max_skip: how many steps are skipped at most; None likewise, which is without a limit.
            seeds: integers that decide the random numbers of a model with ``--binarize bernoulli``, [batch_size]; None
                for 0, 1, ..., as :meth:`predict` takes them.

        Raises ValueError for a model that needs more than the samples so far: one that is bidirectional, that keeps the
        end of a longer sequence (``--crop tail``), that reads texts or images as a whole, or that skips at random.
        """
        self.check_task()
        frames = getattr(self.task, "frames", None)
        if not getattr(self.task, "encodes_steps", False):
            raise ValueError(
                f"task {self.cfg.task._name}: expected one that reads arrays step by step for a stream; it encodes a "
                "sequence as a whole"
            )
        if frames is not None and frames.fit.length is not None and frames.fit.crop != "head":
            raise ValueError(
                f"--crop: expected head for a stream, got {frames.fit.crop}, which depends on a sequence's end"
            )
        if not hasattr(self.model, "head") or not hasattr(getattr(self.model, "rnn", None), "stream"):
            raise ValueError(f"model: expected a model skip_rnn for a stream, got {type(self.model).__name__}")
        decisions = getattr(self.model, "decisions", None)
        if decisions is not None and decisions.skip_prob is not None:
            raise ValueError("--update-rule: expected learned or full for a stream, got random, which no gate decides")
        if seeds is None and getattr(decisions, "draws_updates", False):
            seeds = range(check_size("batch_size", batch_size))
        stream = self.model.rnn.stream(batch_size, None, min_skip, max_skip, seeds)
        decode = getattr(self.task, "decode", None) if self.task.predicts == "numbers" else None
        head, statistics = copy.deepcopy(self.model.head).requires_grad_(False), getattr(frames, "statistics", None)
        return PredictingStream(stream, head, self.task.predicts, statistics, decode)

    def encode(self, raw: Any) -> Tensor:
        """Turn a user's sequence into what the model reads: [T, D], or token ids, int64 [T].

        Args:
            raw: what the task's ``encode`` takes: an array [T, D] of any real numbers, unless the task overrides it. If
                the model reads token ids, ``raw`` may also be token ids, unless these are not among the task's
                ``inputs``.

        Raises ValueError if ``raw`` is not a sequence of this task.
        """
        self.check_task()
        expected = f"shape [T, {self.task.input_size}]"
        if self.reads_words:
            expected = "a text or token ids [T]" if "texts" in self.input_kinds else "token ids [T]"
        is_encoded = "token_ids" in self.input_kinds and not isinstance(raw, str)
        try:
            raw_array = _as_plain_array(raw) if isinstance(raw, np.ndarray) else raw
            tensor = torch.as_tensor(raw_array if is_encoded else _as_plain_array(self.task.encode(raw_array)))
        except (TypeError, RuntimeError) as error:  # not an array
            raise ValueError(f"expected {expected}, got {type(raw).__name__} ({first_sentence(error)})") from error
        if self.reads_words:
            if tensor.dim() != 1 or (len(tensor) and not _is_integer(tensor)):
                raise ValueError(f"expected {expected}, integers, got {tensor.dtype} {tuple(tensor.shape)}")
            return self._check_token_ids(tensor.long())
        if tensor.dim() != 2 or tensor.shape[1] != self.task.input_size:
            raise ValueError(f"expected {expected}, got {tuple(tensor.shape)}")
        if tensor.is_complex():
            raise ValueError(f"expected {expected}, real numbers, got {tensor.dtype}")
        return tensor.to(next(self.model.parameters()).dtype)

    def _check_token_ids(self, token_ids: Tensor) -> Tensor:
        known = self.model.embedding.num_embeddings
        wrong = token_ids[(token_ids < 0) | (token_ids >= known)]
        if len(wrong):
            raise ValueError(f"expected token ids from 0 to {known - 1}, got {wrong[0]}")
        return token_ids

    def _encode_all(self, arrays: Sequences) -> Iterator[Tensor]:
        """Encode all sequences by :meth:`encode`; a ValueError names the argument ``arrays`` and the sequence."""
        self.check_task()
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
        began, device = time.perf_counter(), self.device
        lengths = [len(sequence) for sequence in batch]
        is_padded = min(lengths) < max(lengths)
        x = pad_sequence(batch, batch_first=True) if is_padded else torch.stack(batch)
        with torch.no_grad():
            output = self.model(
                x.to(device),
                torch.tensor(lengths, device=device) if is_padded else None,  # as in the datasets' batches
                # seeds, so that a model with random decisions makes the same ones whatever the batch size is
                torch.arange(start, start + len(batch), device=device),
            )
        values = as_probabilities(output.prediction.float(), self.task.predicts).cpu().numpy()
        if self.task.predicts == "numbers" and getattr(self.task, "decode", None) is not None:
            values = self.task.decode(values)
        directions = getattr(self.model, "num_directions", 1)
        updates = (output.updates > 0).cpu().numpy()
        updates = updates.reshape(len(batch), directions, -1)  # a user's own model may return [B, T]
        lengths = [steps // directions for steps in output.steps.tolist()]
        names = self.class_names if self.task.predicts in ("classes", "labels") else None
        seconds = (time.perf_counter() - began) / len(batch)
        for numbers, length, row in zip(values, lengths, updates):
            numbers = numbers[:length] if self.task.per_step else numbers
            label = None if names is None or numbers.size == 0 else names[numbers.argmax() % numbers.shape[-1]]
            used = row[:, :length]
            yield Prediction(numbers, label, used if directions == 2 else used[0], seconds)


class PredictingStream:
    """A :class:`skiprnn_plugin.modules.stream.Stream` of a trained model: it takes samples as they were before training
    normalised them, and predicts. Made by :meth:`SkipRNNHub.stream`.

    Arguments and results of ``update``, ``skip``, ``feed``, ``reset``, ``time``, ``wanted``, ``output`` and ``state``
    are those of that class. Samples have to be finite numbers. A model that was trained with ``--sequence-length`` read
    no more steps than that, and with ``--padding data`` no fewer; a stream neither stops nor pads.
    """

    def __init__(self, stream, head: nn.Module, predicts: str, statistics, decode: Optional[Callable]):
        self.stream, self._head, self._predicts = stream, head, predicts
        self._statistics, self._decode = statistics, decode

    def update(self, x: Any, rows=None) -> None:
        self.stream.update(self.normalize(x), rows)

    def skip(self, n, rows=None) -> None:
        self.stream.skip(n, rows)

    def feed(self, x: Any, rows=None) -> int:
        return self.stream.feed(self.normalize(x), rows)

    def reset(self, rows=None, state=None, seeds=None) -> None:
        self.stream.reset(rows, state, seeds)

    @property
    def batch_size(self) -> int:
        return self.stream.batch_size

    @property
    def time(self) -> Tensor:
        return self.stream.time

    @property
    def wanted(self) -> Tensor:
        return self.stream.wanted

    @property
    def output(self) -> Tensor:
        return self.stream.output

    @property
    def state(self):
        return self.stream.state

    @property
    def prediction(self) -> np.ndarray:
        """What the model predicts of the samples so far, as :meth:`SkipRNNHub.predict` does, in the
        same unit and type, [batch_size, output_size]; for a task that predicts at every step, of the present step."""
        return self.predict()

    def predict(self, rows=None) -> np.ndarray:
        """:attr:`prediction` of some rows, [N, output_size]; None for all.

        Raises ValueError if a row does not exist.
        """
        output = self.stream.output
        rows = self.stream.check_rows(rows)
        if rows is not None:
            output = output[rows.to(output.device)]
        with torch.no_grad():
            values = as_probabilities(self._head(output).float(), self._predicts).cpu().numpy()
        return values if self._decode is None else self._decode(values)

    def normalize(self, x: Any) -> Any:
        """Samples as the model reads them, an array shaped like ``x``; :meth:`update` and :meth:`feed` call this.

        What is not an array of real numbers is returned unchanged; :meth:`update` and :meth:`feed` refuse it.

        Raises ValueError if a number is not finite, before or after normalising.
        """
        try:
            if isinstance(x, Tensor):
                x = x.detach().cpu().resolve_neg()
                x = x.float() if x.is_floating_point() and x.dtype != torch.float64 else x  # numpy has no bfloat16
            array = np.asarray(x)
        except (TypeError, ValueError, RuntimeError):
            return x
        if array.dtype.kind not in "iufb":
            return x
        statistics = self._statistics
        is_wide = statistics is None and self.stream.dtype == torch.float64
        with np.errstate(over="ignore"):  # an overflow shows as inf, which is refused below
            numbers = array.astype(np.float64)  # as float32 could not tell large numbers that differ little
            if statistics is not None and array.ndim and array.shape[-1] == len(statistics.mean):
                numbers = statistics.normalize(numbers)
            numbers = numbers if is_wide else numbers.astype(np.float32)
        is_finite = np.isfinite(numbers)
        if not is_finite.all():
            place = tuple(np.argwhere(~is_finite)[0].tolist())
            unit = "" if statistics is None else " in units of the training data's standard deviation"
            raise ValueError(
                f"x: expected finite numbers in the range of float32{unit}, got {array[place]} at {list(place)}"
            )
        return numbers


def _as_plain_array(raw: Any) -> Any:
    """An array, or what converts itself to one, with the memory layout and type that torch takes; else ``raw`` itself.

    torch refuses another byte order, negative strides and floats of more than 64 bits, and warns of read-only arrays.
    """
    if isinstance(raw, Tensor) or not hasattr(raw, "__array__"):
        return raw
    array = np.asarray(raw)
    is_long = array.dtype.kind == "f" and array.itemsize > 8
    if array.flags.carray and array.dtype.isnative and not is_long:  # the usual case, in which np.require is slow
        return array
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
        path: a checkpoint, or a folder (fairseq's save-dir) that holds it, or ``zoo:NAME`` for a model that comes with
            the package (:func:`skiprnn_plugin.zoo.names` lists them).
        checkpoint_file: the checkpoint's name in that folder; None for ``checkpoint_best.pt``, or, if that does not
            exist, ``checkpoint_last.pt``.
        user_dir: the folder of your own fairseq plugin, if the model was trained with one.
        overrides: options that replace the stored ones, such as ``data_dir``.

    Raises FileNotFoundError if the checkpoint does not exist, and ValueError if it can't be loaded, or if an override
    is wrong.
    """
    if user_dir is not None:
        utils.import_user_module(argparse.Namespace(user_dir=str(user_dir)))
    loaded = load_model(find_checkpoint(path, checkpoint_file), overrides or None)
    return SkipRNNHub(loaded.model, loaded.cfg, loaded.task)
