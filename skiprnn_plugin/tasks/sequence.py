"""The common part of the tasks: a Skip RNN makes a prediction for each sequence, or for each of its steps."""

import argparse
import logging
import math
import os
from dataclasses import dataclass, field
from typing import Callable, Optional, Sequence

import numpy as np
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion as LabelSmoothedCriterion
from fairseq.dataclass import FairseqDataclass
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, MODEL_DATACLASS_REGISTRY
from fairseq.tasks import FairseqTask
from omegaconf import II
from torch import nn

from .. import checkpoints, metrics  # not names from them: they may be importing fairseq, which imports this
from .._fairseq.batches import EverySequence
from .._fairseq.configuration import read_run
from .._fairseq.patches import forget_previous_run
from .._fairseq.processes import check_processes
from ..arguments import PATHS
from ..predictions import CRITERIONS
from .options import check_training_options
from .presentation import Presented
from .stopping import StopsInOrder

logger = logging.getLogger(__name__)


@dataclass
class SequenceTaskConfig(FairseqDataclass):
    stop_update_fraction: float = field(
        default=0.0,
        metadata={
            "help": "end training at the first validation in which the task is solved and at most this fraction of "
            "the steps is used (1: as soon as the task is solved; 0: never)"
        },
    )
    seed: int = II("common.seed")


class SequenceTask(Presented, EverySequence, StopsInOrder, FairseqTask):
    """A task whose model reads a sequence and makes one prediction, or one at each step.

    A subclass loads datasets. Their batches hold ``target`` and ``net_input`` with

    - ``x``, [B, T, input_size], or token ids, int64 [B, T] (then the subclass overrides :meth:`build_embedding`);
    - ``lengths``, [B], if sequences differ in length;
    - ``seeds``, [B], if random skipping is to be repeatable.

    A subclass also sets the attributes below, overrides :meth:`encode` if users have other sequences than arrays
    [T, input_size], and may override what :class:`Presented` says to ``skiprnn-plot`` and ``skiprnn-predict``.

    Attributes:
        input_size: features of the input.
        output_size: numbers in a prediction.
        per_step: whether there is a prediction at each step.
        encoder_flops: multiply-accumulates that it takes to encode a step that is read, for the logged ``flops``.
        predicts: ``"classes"`` (a prediction holds a logit for each class), ``"labels"`` (a logit for each label, and
            any number of labels may apply at once) or ``"numbers"``. ``skiprnn_plugin.hub`` needs it.
        class_names: the names of the classes or labels, if they have names.
        feature_names: the names of the features of a step, if they have names.
        frame_rate: steps in a second, if steps are equally spaced in time.
        decode: for numbers, the function that turns those that a model predicts, [..., output_size], into the unit of
            the labels. None if they are in that unit.
        target_scale: [output_size]; for numbers, what ``decode`` multiplies by. The criterion logs the error in this
            unit. None for 1.
    """

    input_size: int
    output_size: int
    per_step = False
    encoder_flops = 0
    predicts: Optional[str] = None
    class_names: Optional[Sequence[str]] = None
    feature_names: Optional[Sequence[str]] = None
    frame_rate: Optional[float] = None
    decode: Optional[Callable[[np.ndarray], np.ndarray]] = None
    target_scale: Optional[np.ndarray] = None
    source_dictionary = target_dictionary = None  # fairseq's criterions read these; a task without words has none
    from_checkpoint = False  # whether the task belongs to a trained model that is loaded

    def __init__(self, cfg: SequenceTaskConfig, **kwargs):
        """Raises ValueError for a task without a dataclass, and for options, fairseq's too, that can't be meant.

        fairseq passes ``from_checkpoint`` for a trained model that is loaded. This package passes ``alone`` for a
        training within a program, which has nothing to do with the program's other processes and fairseq runs.
        """
        if isinstance(cfg, argparse.Namespace):  # the configuration of the run can't be reached from it
            raise ValueError(
                f"task {cfg.task}: expected register_task({cfg.task!r}, dataclass=...) with a subclass of "
                "SequenceTaskConfig, got a task that is configured by argparse (add_args)"
            )
        super().__init__(cfg, **kwargs)
        self.from_checkpoint = bool(kwargs.get("from_checkpoint"))
        if not self.from_checkpoint:  # for a training run, but not for a trained model that is loaded
            if not kwargs.get("alone"):
                forget_previous_run()
                check_processes()
            check_training_options(read_run(cfg))
        if not 0 <= cfg.stop_update_fraction <= 1:
            raise ValueError(f"--stop-update-fraction: expected a number in [0, 1], got {cfg.stop_update_fraction}")

    def build_embedding(self) -> Optional[nn.Embedding]:
        """The embedding of the token ids, [number of words, input_size]; None if the input is features."""
        return None

    @property
    def data_moved(self) -> str:
        """The end of the message that a ``--data-dir`` does not exist; for a trained model it says how to change it."""
        hint = "; if it was moved: --set data_dir=DIR, in Python from_pretrained(..., data_dir=DIR)"
        return hint if self.from_checkpoint else ""

    def trains_on(self, split: str) -> bool:
        """Whether a split is ``--train-subset``, which is drawn or shuffled again in every epoch. Others are fixed."""
        dataset = read_run(self.cfg).get("dataset") or {}
        return split == dataset.get("train_subset", "train")

    @property
    def takes_arrays(self) -> bool:
        """Whether users' sequences are arrays [T, input_size], which :meth:`encode` returns unchanged."""
        return type(self).encode is SequenceTask.encode

    @property
    def encodes_steps(self) -> bool:
        """Whether users' sequences are arrays [T, input_size], of which :meth:`encode` changes each step by itself, by
        the statistics of the attribute ``frames`` alone: then a stream can read them step by step."""
        return self.takes_arrays

    def encode(self, raw):
        """Turn a user's sequence into what the model reads: an array [T, input_size], or token ids, int64 [T].

        Raises ValueError if ``raw`` is not a sequence of this task.
        """
        return raw

    def build_model(self, cfg, from_checkpoint=False):
        """Raises ValueError if a named engine can't train the model; the plugin checks this for every task."""
        if from_checkpoint:
            models = {arch: MODEL_DATACLASS_REGISTRY.get(name) for arch, name in ARCH_MODEL_NAME_REGISTRY.items()}
            cfg = checkpoints.drop_unknown_options("model", cfg, {**models, **MODEL_DATACLASS_REGISTRY})
        else:
            self._store_absolute_paths()
        return super().build_model(cfg, from_checkpoint)

    def _store_absolute_paths(self) -> None:
        """Let the checkpoints of this run name files and folders in a way that holds from any folder."""
        stored = read_run(self.cfg).get("task") or {}
        for name, value in stored.items():
            if name.endswith(PATHS) and isinstance(value, str) and os.path.exists(value):
                stored[name] = os.path.abspath(value)

    def build_criterion(self, cfg, from_checkpoint=False):
        """Raises ValueError if the criterion does not suit what the task predicts.

        If the task is from a checkpoint, so is the criterion's configuration, although fairseq-validate passes no
        ``from_checkpoint``.
        """
        from_checkpoint = from_checkpoint or self.from_checkpoint
        if from_checkpoint:
            cfg = checkpoints.drop_unknown_options("criterion", cfg, CRITERION_DATACLASS_REGISTRY)
        fitting = CRITERIONS.get(self.predicts)
        name = cfg.criterion if isinstance(cfg, argparse.Namespace) else cfg._name
        if fitting is not None and name != fitting and name in CRITERIONS.values():
            raise ValueError(f"--criterion: the task predicts {self.predicts}, expected {fitting}, got {name}")
        criterion = super().build_criterion(cfg)  # in fairseq 0.12.2 it has no argument from_checkpoint
        for_classes = type(getattr(criterion, "base", criterion)) in (CrossEntropyCriterion, LabelSmoothedCriterion)
        if for_classes and self.predicts in ("labels", "numbers"):
            given = f"{name} around {cfg.base_criterion}" if hasattr(criterion, "base") else name
            raise ValueError(f"--criterion: the task predicts {self.predicts}, expected {fitting}, got {given}")
        return criterion

    def post_validate(self, model, stats, agg):
        """fairseq-train calls this after each validation. It ends training once ``--stop-update-fraction`` is reached.

        If the metric that chooses the best checkpoint is nan, it is set to the worst value, inf or -inf.

        Raises ValueError if ``--best-checkpoint-metric`` was not logged.
        """
        metrics.forget_points()
        checkpoint = self.cfg._get_root().checkpoint
        best = checkpoint.best_checkpoint_metric
        if best not in stats:
            known = ", ".join(sorted(name for name in stats if name != "num_updates" and not name.startswith("best_")))
            raise ValueError(f"--best-checkpoint-metric: expected one of {known}, got {best!r}")
        if math.isnan(stats[best]):  # fairseq would save no best checkpoint, or forget which was the best
            stats[best] = -math.inf if checkpoint.maximize_best_checkpoint_metric else math.inf
        if stats.get("solved") and stats["update_fraction"] <= self.cfg.stop_update_fraction:
            logger.info(
                f"solved with {stats['update_fraction']:.1%} of the samples after {stats['num_updates']} training "
                "updates: ending training (--stop-update-fraction)"
            )
            cfg = self.cfg._get_root()
            # In the middle of an epoch fairseq ends after the next training update, which it validates and saves.
            self.change_option("optimization", "max_update", stats["num_updates"])
            # At the end of an epoch it can end at once, if the model that it has just validated is saved.
            if cfg.dataset.validate_interval % cfg.checkpoint.save_interval == 0:
                self.change_option("optimization", "stop_min_lr", math.inf)
