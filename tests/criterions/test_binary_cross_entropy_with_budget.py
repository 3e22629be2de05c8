"""Several labels at each step: the loss by hand, and the points of the whole set."""

import json
import math

import numpy as np
import pytest
import torch

import skiprnn_plugin  # noqa: F401
from skiprnn_plugin.average_precision import mean_average_precision
from skiprnn_plugin.criterions.binary_cross_entropy_with_budget import BinaryCrossEntropyWithBudgetCriterion
from skiprnn_plugin.criterions.budget import BudgetConfig
from skiprnn_plugin.models.skip_rnn import SkipRNNOutput

from .test_budget import log_values

from fairseq.logging import metrics, progress_bar  # isort: skip


def build(**options):
    return BinaryCrossEntropyWithBudgetCriterion.build_criterion(BudgetConfig(**options), None)


def model(logits, updates):
    return lambda x, lengths=None: SkipRNNOutput(logits, updates, x, flops_per_update=10)


def test_mean_over_real_steps_and_classes_then_over_sequences():
    logits = torch.zeros(2, 3, 2, requires_grad=True)
    target = torch.tensor([[[1, 0], [0, 0], [1, 1]], [[1, 0], [1, 1], [0, 0]]], dtype=torch.bool)
    with torch.no_grad():
        logits[0, 2, 1] = 2
        logits[1, 1:] = 50  # padding
    steps = torch.tensor([3, 1])
    sample = {"net_input": {"x": steps, "lengths": steps}, "target": target}
    updates = torch.tensor([[1.0, 1, 0], [1, 0, 0]])
    loss, size, log = build(cost_per_sample=0.5)(model(logits, updates), sample)
    first = (5 * math.log(2) + math.log(1 + math.exp(-2))) / 6
    assert size == 2 and float(log["task_loss"]) == pytest.approx(first + math.log(2), rel=1e-6)
    assert loss.item() == pytest.approx(first + math.log(2) + 1.5, rel=1e-6)
    loss.backward()
    assert logits.grad[1].tolist() == [[-0.25, 0.25], [0, 0], [0, 0]]
    assert logits.grad[0, 0].tolist() == pytest.approx([-1 / 12, 1 / 12])


def test_half_precision_predictions_give_float32_losses():
    sample = {"net_input": {"x": torch.tensor([4])}, "target": torch.ones(1, 4, 2, dtype=torch.bool)}
    loss, _, log = build()(model(torch.full((1, 4, 2), 20.0, dtype=torch.float16), torch.ones(1, 4)), sample)
    assert loss.dtype == log["task_loss"].dtype == torch.float32 and float(loss) == pytest.approx(math.exp(-20))


@pytest.fixture
def batches():
    """Seven sequences with five points each, of eight steps with three classes; the third has no positives."""
    torch.manual_seed(0)
    logits, updates = torch.randn(7, 8, 3), torch.ones(7, 8)
    points = {"steps": torch.randint(8, (7, 5)).sort(1).values, "target": torch.rand(7, 5, 3) < 0.5}
    points["target"][:, :, 2] = False

    def batch(*rows):
        rows = torch.tensor(rows)
        sample = {"id": rows, "net_input": {"x": torch.full((len(rows),), 8)}, "target": torch.zeros(len(rows), 8, 3)}
        sample["points"] = {name: values[rows] for name, values in points.items()}
        return model(logits[rows], updates[rows]), sample

    scores = logits[torch.arange(7).unsqueeze(1), points["steps"]].view(35, 3).numpy()
    return batch, mean_average_precision(scores, points["target"].view(35, 3).numpy())


def test_precision_is_over_the_whole_set_however_batches_are_cut(batches):
    batch, expected = batches
    criterion = build().eval()

    def log(*rows):
        return criterion(*batch(*rows))[2]

    for logs in (
        [[log(*range(7))]],
        [[log(4, 5), log(6)], [log(0, 1, 2, 3)]],
        [[log(0, 1)], [log(2, 3, 4, 5, 6)], [log(0, 1)]],
    ):
        values = log_values(criterion, logs)
        assert type(values["mAP"]) is float and values["mAP"] == pytest.approx(expected, abs=1e-12)
        assert values["mAP_classes"] == 2


def test_precision_tells_large_scores_apart():
    """Their probabilities are all 1 in float32."""
    points = {"steps": torch.zeros(3, 1, dtype=torch.int64), "target": torch.tensor([False, False, True]).view(3, 1, 1)}
    sample = {"id": torch.arange(3), "net_input": {"x": torch.ones(3)}, "target": torch.zeros(3, 1, 1)}
    criterion = build().eval()
    logits = torch.tensor([20.0, 30.0, 40.0]).view(3, 1, 1)
    log = criterion(model(logits, torch.ones(3, 1)), {**sample, "points": points})[2]
    assert log_values(criterion, [[log]])["mAP"] == 1


def test_in_training_nothing_is_kept(batches):
    criterion = build()
    assert criterion.logging_outputs_can_be_summed() and not criterion.eval().logging_outputs_can_be_summed()
    log = criterion.train()(*batches[0](0, 1))[2]
    assert "points" not in log and "mAP" not in log_values(criterion, [[log]])


def test_points_go_neither_into_checkpoints_nor_into_progress_bars(batches):
    criterion = build().eval()
    log = criterion(*batches[0](0, 1, 2))[2]
    with metrics.aggregate(new_root=True) as aggregator:
        criterion.reduce_metrics([log])
    assert not {"mAP", "mAP_classes"} & {key for _, key, *_ in aggregator.state_dict()}
    bar = progress_bar.JsonProgressBar([])
    assert json.loads(json.dumps(bar._format_stats(log)))["points"] == "15"
    assert np.array_equal(log["points"].ids, [0, 1, 2])
