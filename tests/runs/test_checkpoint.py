"""Running a loaded model over a split."""

from types import SimpleNamespace

import pytest
import torch

from skiprnn_plugin.arguments import UserError
from skiprnn_plugin.runs.checkpoint import run_model


@pytest.mark.parametrize("shape", [(2, 4), (2, 1, 4), (2, 2, 4), (2, 8)], ids=str)
def test_updates_by_direction_and_step(shape):
    """Whatever the shape in which the model returns them."""
    updates = torch.arange(2 * shape[-1] * (shape[1] if len(shape) == 3 else 1)).reshape(shape) % 3
    loaded = SimpleNamespace(model=lambda x: SimpleNamespace(updates=updates), device=torch.device("cpu"), path="a.pt")
    _, used = run_model(loaded, {"net_input": {"x": torch.zeros(2, 4, 1)}})
    assert used.tolist() == (updates.reshape(2, -1, 4) > 0).tolist()
    with pytest.raises(UserError, match=f"a.pt: expected a model that decides at each of 3 steps, .* {shape[-1]}"):
        run_model(loaded, {"net_input": {"x": torch.zeros(2, 3, 1)}})
