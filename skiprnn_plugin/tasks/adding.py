"""The adding task: sum the two marked values of a sequence."""

import math
import zlib
from dataclasses import dataclass, field

from fairseq.logging import metrics
from fairseq.tasks import register_task

from ..data.adding import AddingDataset
from .sequence import SequenceTask, SequenceTaskConfig, check_positive


@dataclass
class AddingConfig(SequenceTaskConfig):
    sequence_length: int = field(default=50, metadata={"help": "steps of a sequence"})
    min_value: float = field(default=-0.5, metadata={"help": "lower end of the values' range"})
    max_value: float = field(default=0.5, metadata={"help": "upper end of the values' range"})
    train_size: int = field(default=76800, metadata={"help": "sequences drawn anew for each training epoch"})
    valid_size: int = field(default=3840, metadata={"help": "sequences in each held-out set"})
    valid_seed: int = field(default=0, metadata={"help": "seed of the held-out sets, the same for every --seed"})


@register_task("adding", dataclass=AddingConfig)
class AddingTask(SequenceTask):
    """Held-out splits (any name but ``train``) are fixed by ``--valid-seed``. Logs ``solved``: 1 once the MSE is at
    least 100 times below the targets' variance."""

    input_size = 2
    output_size = 1

    def __init__(self, cfg: AddingConfig, **kwargs):
        super().__init__(cfg, **kwargs)
        if cfg.sequence_length < 2:
            raise ValueError(f"--sequence-length: expected at least 2, got {cfg.sequence_length}")
        if not (math.isfinite(cfg.min_value) and math.isfinite(cfg.max_value) and cfg.min_value < cfg.max_value):
            raise ValueError(f"--min-value, --max-value: expected a range, got {cfg.min_value} to {cfg.max_value}")
        check_positive({"--train-size": cfg.train_size, "--valid-size": cfg.valid_size})
        if cfg.valid_seed < 0:
            raise ValueError(f"--valid-seed: expected at least 0, got {cfg.valid_seed}")

    def load_dataset(self, split, combine=False, **kwargs):
        cfg = self.cfg
        train = split == "train"
        self.datasets[split] = AddingDataset(
            cfg.sequence_length,
            cfg.min_value,
            cfg.max_value,
            size=cfg.train_size if train else cfg.valid_size,
            key=(zlib.crc32(split.encode()), cfg.seed if train else cfg.valid_seed),
            fixed=not train,
        )

    def reduce_metrics(self, logging_outputs, criterion):
        super().reduce_metrics(logging_outputs, criterion)
        limit = (self.cfg.max_value - self.cfg.min_value) ** 2 / 6 / 100
        metrics.log_derived("solved", lambda meters: float("mse" in meters and meters["mse"].avg <= limit))
