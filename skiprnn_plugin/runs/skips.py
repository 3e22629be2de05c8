"""How many steps trained models skip between two updates, over a held-out split."""

from dataclasses import dataclass
from functools import reduce
from typing import List, NamedTuple, Sequence

import numpy as np

from ..arguments import UserError
from .checkpoint import Loaded, iterate_batches, run_model
from .run import Run
from .series import group_repeats


@dataclass
class CountedRun(Run):
    """A run, with how often two updates of a sequence have 0, 1, 2, ... skipped steps between them, [longest + 1]."""

    counts: np.ndarray


class Skips(NamedTuple):
    """Runs that repeat each other, all counted together.

    Attributes:
        label: the model's name.
        counts: see :class:`CountedRun`.
        sequences: how many held-out sequences were read, by all runs.
        runs: how many runs.
    """

    label: str
    counts: np.ndarray
    sequences: int
    runs: int

    @property
    def mean(self) -> float:
        return float(self.counts @ np.arange(len(self.counts)) / self.counts.sum())

    @property
    def longest(self) -> int:
        return len(self.counts) - 1

    @property
    def legend(self) -> str:
        return f"{self.label}: mean {self.mean:.3g}, longest {self.longest}"


def measure_skips(loaded: Loaded) -> CountedRun:
    """Run the whole held-out split through the model; of a bidirectional one both directions count.

    Steps before a sequence's first update and after its last do not count, as they are not between two updates.
    """
    counts, sequences = np.zeros(0, dtype=int), 0
    for sample in iterate_batches(loaded):
        _, used = run_model(loaded, sample)
        sequences += len(used)
        rows, steps = used.reshape(-1, used.shape[2]).nonzero()
        skipped = np.diff(steps)[np.diff(rows) == 0] - 1
        counts = _add(counts, np.bincount(skipped))
    if not counts.any():
        raise UserError(
            f"{loaded.path}: no sequence of split {loaded.split} has two updates, to count the steps between"
        )
    return CountedRun(loaded.path, loaded.options, {}, sequences, counts)


def pool_skips(runs: Sequence[CountedRun]) -> List[Skips]:
    """The counts of runs that repeat each other, added up, in the order of the runs."""
    return [_pool(repeats.label, repeats.runs) for repeats in group_repeats(runs)]


def _pool(label: str, runs: Sequence[CountedRun]) -> Skips:
    counts = reduce(_add, [run.counts for run in runs])
    return Skips(label, counts, sum(run.sequences for run in runs), len(runs))


def _add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    size = max(len(a), len(b))
    return np.pad(a, (0, size - len(a))) + np.pad(b, (0, size - len(b)))
