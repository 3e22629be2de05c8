"""The updates in a model's output: [B, directions, T], or [B, T] from a user's own model."""

from types import SimpleNamespace

import pytest
import torch

from skiprnn_plugin.criterions.budget import BudgetConfig
from skiprnn_plugin.criterions.mse_with_budget import MSEWithBudgetCriterion
from skiprnn_plugin.models.skip_rnn import SkipRNNOutput


@pytest.mark.parametrize("shape", [(3, 8), (3, 1, 8), (3, 2, 4)], ids=str)
def test_any_shape_counts_alike(shape):
    updates = torch.tensor([[1.0, 0, 1, 1, 0, 0, 1, 0], [0.0] * 8, [1.0] * 8]).view(shape).requires_grad_()
    output = SkipRNNOutput(torch.zeros(3, 1), updates, torch.tensor([8, 8, 8]), flops_per_update=10)
    criterion = MSEWithBudgetCriterion.build_criterion(BudgetConfig(cost_per_sample=0.5), SimpleNamespace())
    loss, _, log = criterion(lambda x: output, {"net_input": {"x": None}, "target": torch.zeros(3)})
    assert loss == 0.5 * 12 and log["updates"] == 12 and log["updates_squared"] == 16 + 64 and log["flops"] == 120
    loss.backward()
    assert updates.grad.shape == shape and (updates.grad == 0.5).all()
