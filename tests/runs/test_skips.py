"""What counts as skipped steps between two updates."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np

from skiprnn_plugin.runs import skips


def test_both_directions_and_no_step_before_the_first_update_or_after_the_last(monkeypatch):
    used = np.array(
        [
            [[0, 1, 0, 0, 1, 0], [1, 1, 1, 0, 0, 0]],
            [[1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 1, 1]],
        ],
        bool,
    )
    monkeypatch.setattr(skips, "iterate_batches", lambda loaded: [used, used[:1]])
    monkeypatch.setattr(skips, "run_model", lambda loaded, sample: (None, sample))
    counted = skips.measure_skips(SimpleNamespace(path=Path("a.pt"), options={}, split="valid"))
    assert counted.counts.tolist() == [2 + 1 + 2, 0, 1 + 1 + 1] and counted.sequences == 3
