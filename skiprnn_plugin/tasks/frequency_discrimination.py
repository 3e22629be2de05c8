"""The frequency discrimination task: tell waves with a period of 5 to 6 ms from others."""

import math
from dataclasses import dataclass, field

from fairseq.tasks import register_task

from ..data.frequency import TARGET_PERIODS, FrequencyDataset
from .presentation import Drawing
from .synthetic import SyntheticTask, SyntheticTaskConfig

SOLVED_ACCURACY = 0.99


@dataclass
class FrequencyDiscriminationConfig(SyntheticTaskConfig):
    sampling_period: float = field(default=1.0, metadata={"help": "time from one step to the next, in ms"})
    sequence_duration: float = field(
        default=100.0,
        metadata={"help": "duration of a sequence, in ms; it has duration / --sampling-period steps, rounded"},
    )
    min_period: float = field(
        default=1.0, metadata={"help": "shortest period of a wave, in ms (0 in the authors' program, 1 in the paper)"}
    )
    max_period: float = field(default=100.0, metadata={"help": "longest period of a wave, in ms"})


@register_task("frequency_discrimination", dataclass=FrequencyDiscriminationConfig)
class FrequencyDiscriminationTask(SyntheticTask):
    """Two classes of equal size. Solved if the accuracy is at least 0.99."""

    input_size = 1
    output_size = 2
    predicts = "classes"

    def __init__(self, cfg: FrequencyDiscriminationConfig, **kwargs):
        super().__init__(cfg, **kwargs)
        low, high = TARGET_PERIODS
        if not 0 < cfg.sampling_period < math.inf:
            raise ValueError(f"--sampling-period: expected ms above 0, got {cfg.sampling_period}")
        if not cfg.sampling_period <= cfg.sequence_duration < math.inf:
            raise ValueError(
                f"--sequence-duration: expected at least --sampling-period, {cfg.sampling_period} ms, "
                f"got {cfg.sequence_duration}"
            )
        if not 0 <= cfg.min_period <= low:
            raise ValueError(f"--min-period: expected 0 to {low} ms, got {cfg.min_period}")
        if not high < cfg.max_period < math.inf:
            raise ValueError(f"--max-period: expected ms above {high}, got {cfg.max_period}")

    @property
    def drawing(self) -> Drawing:
        return Drawing(
            "points",
            spread=False,
            time_label="time (ms)",
            first_time=0,
            time_step=self.cfg.sampling_period,
            value_label="amplitude",
        )

    @classmethod
    def solved_at(cls, options):
        return {"accuracy": SOLVED_ACCURACY}

    def make_dataset(self, size, key, fixed):
        cfg = self.cfg
        return FrequencyDataset(
            round(cfg.sequence_duration / cfg.sampling_period),
            cfg.sampling_period,
            cfg.min_period,
            cfg.max_period,
            size=size,
            key=key,
            fixed=fixed,
        )
