"""What is drawn of held-out sequences."""

from types import SimpleNamespace

import numpy as np
import torch

from skiprnn_plugin.data.sequence import StoredDataset
from skiprnn_plugin.runs import samples


class Counted(StoredDataset):
    """Sequence i holds i at each of its i + 1 steps."""

    def read(self, index):
        return np.full((index + 1, 1), index, np.float32), index


def test_a_step_is_used_that_either_direction_uses(monkeypatch):
    used = np.array([[[1, 0, 0], [0, 0, 1]], [[0, 1, 0], [0, 1, 0]]], bool)
    output = SimpleNamespace(prediction=torch.tensor([[0.5], [2.0]]))
    monkeypatch.setattr(samples, "run_model", lambda loaded, sample: (output, used))
    dataset = Counted(np.arange(1, 5), (0,), fixed=True)
    read = samples.read_samples(SimpleNamespace(dataset=dataset), [2, 1])
    assert read.used.tolist() == [[True, False, True], [False, True, False]]
    assert read.x[..., 0].tolist() == [[2, 2, 2], [1, 1, 0]] and read.lengths.tolist() == [3, 2]
    assert read.target.tolist() == [2, 1] and read.prediction.tolist() == [[0.5], [2.0]]
