"""What the tasks share: one prediction per sequence from a Skip RNN."""

import logging
import math
from dataclasses import dataclass, field

from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import FairseqTask
from omegaconf import II

from .._fairseq_patches import check_processes, forget_previous_run

logger = logging.getLogger(__name__)


@dataclass
class SequenceTaskConfig(FairseqDataclass):
    stop_update_fraction: float = field(
        default=0.0,
        metadata={
            "help": "end training at the first validation that finds the task solved with at most this fraction of "
            "the samples used (1: as soon as it is solved; 0: never)"
        },
    )
    seed: int = II("common.seed")


class SequenceTask(FairseqTask):
    """A task whose model reads a sequence and makes one prediction.

    A subclass sets what a model needs to be built: ``input_size``, features of the input, and ``output_size``, numbers
    in a prediction. It loads datasets whose batches hold ``target`` and, in ``net_input``, ``x`` [B, T, input_size];
    ``lengths`` [B] if sequences differ in length; and ``seeds`` [B] if random skipping is to repeat.
    """

    input_size: int
    output_size: int

    def __init__(self, cfg: SequenceTaskConfig, **kwargs):
        super().__init__(cfg, **kwargs)
        if not kwargs.get("from_checkpoint"):  # a new run, not a model loaded beside it
            forget_previous_run()
            check_processes()
        if not 0 <= cfg.stop_update_fraction <= 1:
            raise ValueError(f"--stop-update-fraction: expected a number in [0, 1], got {cfg.stop_update_fraction}")

    def get_batch_iterator(self, *args, **kwargs):
        """As in fairseq, with two differences.

        Every sequence is in a batch: fairseq's default ``--required-batch-size-multiple`` of 8 would silently drop
        those left over at the end. And worker processes live for one epoch: they start from that epoch's data and end
        with it, where persistent ones would repeat the first epoch's for ever.
        """
        kwargs["required_batch_size_multiple"] = 1
        iterator = super().get_batch_iterator(*args, **kwargs)
        iterator.persistent_workers = False
        return iterator

    def post_validate(self, model, stats, agg):
        """fairseq-train's hook after each validation: ends training once ``--stop-update-fraction`` is reached."""
        if stats.get("solved") and stats["update_fraction"] <= self.cfg.stop_update_fraction:
            logger.info(
                f"solved with {stats['update_fraction']:.1%} of the samples after {stats['num_updates']} updates: "
                "ending training (--stop-update-fraction)"
            )
            cfg = self.cfg._get_root()
            # In the middle of an epoch fairseq ends after the next update, which it validates and saves.
            cfg.optimization.max_update = stats["num_updates"]
            # At the end of one it can end at once, if what it has just validated is saved.
            if cfg.dataset.validate_interval % cfg.checkpoint.save_interval == 0:
                cfg.optimization.stop_min_lr = math.inf


def check_positive(options: dict) -> None:
    """Raise ValueError for the first option, by its name on the command line, that is below 1."""
    for option, value in options.items():
        if value < 1:
            raise ValueError(f"{option}: expected at least 1, got {value}")
