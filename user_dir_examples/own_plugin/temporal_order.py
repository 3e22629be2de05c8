"""The task ``temporal_order`` (Hochreiter and Schmidhuber 1997, task 6a): in which order two relevant symbols came."""

from dataclasses import dataclass, field

import numpy as np
from fairseq.tasks import register_task

from skiprnn_plugin.data.synthetic import SyntheticDataset
from skiprnn_plugin.tasks.synthetic import SyntheticTask, SyntheticTaskConfig

SYMBOLS = 6  # X, Y and four distractors


@dataclass
class TemporalOrderConfig(SyntheticTaskConfig):
    sequence_length: int = field(default=30, metadata={"help": "steps of a sequence"})


@register_task("temporal_order", dataclass=TemporalOrderConfig)
class TemporalOrderTask(SyntheticTask):
    """Predicts the order of the two relevant symbols, each of which is X or Y."""

    input_size = SYMBOLS
    output_size = 4
    predicts = "classes"
    class_names = ("XX", "XY", "YX", "YY")

    def __init__(self, cfg: TemporalOrderConfig, **kwargs):
        super().__init__(cfg, **kwargs)
        if cfg.sequence_length < 4:
            raise ValueError(f"--sequence-length: expected at least 4, got {cfg.sequence_length}")

    def make_dataset(self, size, key, fixed):
        return TemporalOrder(self.cfg.sequence_length, size=size, key=key, fixed=fixed)


class TemporalOrder(SyntheticDataset):
    """Sequences of one-hot symbols. One step of each half is X or Y; all others are distractors."""

    def __init__(self, length, size, key, fixed):
        self.length = length
        super().__init__(size, key, fixed)

    def draw(self, rng, size):
        symbols = rng.integers(2, SYMBOLS, (size, self.length))
        first, second = rng.integers(0, 2, (2, size))
        half, rows = self.length // 2, np.arange(size)
        symbols[rows, rng.integers(0, half, size)] = first
        symbols[rows, rng.integers(half, self.length, size)] = second
        return np.eye(SYMBOLS, dtype=np.float32)[symbols], 2 * first + second
