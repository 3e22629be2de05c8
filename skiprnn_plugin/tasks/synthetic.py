"""The common part of the tasks on sequences that are drawn at random."""

from dataclasses import dataclass, field
from typing import Any, Mapping, Tuple

from fairseq.logging import metrics

from ..arguments import check_count, check_size
from ..criterions.budget import BudgetCriterion
from ..data.sequence import split_key
from ..data.synthetic import SyntheticDataset
from .sequence import SequenceTask, SequenceTaskConfig


@dataclass
class SyntheticTaskConfig(SequenceTaskConfig):
    train_size: int = field(
        default=76800, metadata={"help": "sequences in a training epoch; every epoch draws new ones"}
    )
    valid_size: int = field(default=3840, metadata={"help": "sequences in each held-out set"})
    valid_seed: int = field(default=0, metadata={"help": "seed of the held-out sets, which do not depend on --seed"})


def is_solved(meters: Mapping[str, Any], limits: Mapping[str, float]) -> bool:
    """Whether fairseq's meters have reached each of these limits, or are better; False if one was not logged."""
    for name, limit in limits.items():
        if name not in meters:
            return False
        value = meters[name].avg
        if not (value >= limit if name == "accuracy" else value <= limit):
            return False
    return True


class SyntheticTask(SequenceTask):
    """A task on random sequences; a subclass makes the datasets, and says with ``solved_at`` when it is solved. Logs
    ``solved``: 1 if it is, otherwise 0.

    Held-out splits (all but ``--train-subset``) depend only on ``--valid-seed`` and ``--valid-size``.
    """

    def __init__(self, cfg: SyntheticTaskConfig, **kwargs):
        super().__init__(cfg, **kwargs)
        check_size("--train-size", cfg.train_size)
        check_size("--valid-size", cfg.valid_size)
        check_count("--valid-seed", cfg.valid_seed)

    def make_dataset(self, size: int, key: Tuple[int, ...], fixed: bool) -> SyntheticDataset:
        """A dataset of the task's sequences; for the arguments see :class:`SyntheticDataset`."""
        raise NotImplementedError

    def load_dataset(self, split, combine=False, **kwargs):
        cfg = self.cfg
        train = self.trains_on(split)
        self.datasets[split] = self.make_dataset(
            size=cfg.train_size if train else cfg.valid_size,
            key=split_key(split, cfg.seed if train else cfg.valid_seed),
            fixed=not train,
        )

    def reduce_metrics(self, logging_outputs, criterion):
        super().reduce_metrics(logging_outputs, criterion)
        if isinstance(criterion, BudgetCriterion):  # other criterions may log the accuracy in per cent
            limits = self.solved_at(self.cfg)
            metrics.log_derived("solved", lambda meters: float(is_solved(meters, limits)))
