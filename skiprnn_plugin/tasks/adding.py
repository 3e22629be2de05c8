"""The adding task: sum the two marked values of a sequence."""

import math
from dataclasses import dataclass, field

from fairseq.tasks import register_task

from ..data.adding import AddingDataset, target_variance
from .presentation import Drawing
from .synthetic import SyntheticTask, SyntheticTaskConfig


@dataclass
class AddingConfig(SyntheticTaskConfig):
    sequence_length: int = field(default=50, metadata={"help": "steps of a sequence"})
    min_value: float = field(default=-0.5, metadata={"help": "lower end of the values' range"})
    max_value: float = field(default=0.5, metadata={"help": "upper end of the values' range"})


def solved_mse(low: float, high: float) -> float:
    """The largest MSE that counts as solved, with values from U(low, high)."""
    return target_variance(low, high) / 100


@register_task("adding", dataclass=AddingConfig)
class AddingTask(SyntheticTask):
    """Solved if the MSE is at most 1/100 of the targets' variance."""

    input_size = 2
    output_size = 1
    predicts = "numbers"
    drawing = Drawing("points", spread=False, marked_feature=1, marked_label="marked: to be added up")

    def __init__(self, cfg: AddingConfig, **kwargs):
        super().__init__(cfg, **kwargs)
        if cfg.sequence_length < 2:
            raise ValueError(f"--sequence-length: expected at least 2, got {cfg.sequence_length}")
        if not (math.isfinite(cfg.min_value) and math.isfinite(cfg.max_value) and cfg.min_value < cfg.max_value):
            raise ValueError(f"--min-value, --max-value: expected a range, got {cfg.min_value} to {cfg.max_value}")

    def make_dataset(self, size, key, fixed):
        cfg = self.cfg
        return AddingDataset(cfg.sequence_length, cfg.min_value, cfg.max_value, size=size, key=key, fixed=fixed)

    @classmethod
    def solved_at(cls, options):
        return {"mse": solved_mse(options["min_value"], options["max_value"])}
