"""Task loss + budget, by hand."""

import math
from types import SimpleNamespace

import pytest
import torch

import skiprnn_plugin  # noqa: F401
from skiprnn_plugin import metrics as plugin_metrics
from skiprnn_plugin.criterions.budget import BudgetConfig
from skiprnn_plugin.criterions.cross_entropy_with_budget import CrossEntropyWithBudgetCriterion
from skiprnn_plugin.criterions.mse_with_budget import MSEWithBudgetCriterion
from skiprnn_plugin.models.skip_rnn import SkipRNNModel, SkipRNNOutput

from fairseq.logging import metrics  # isort: skip

UPDATES = torch.tensor([[1.0, 0, 1, 1], [1, 0, 0, 0], [1, 1, 0, 0]])  # the last sequence has two real steps
STEPS = torch.tensor([4, 4, 2])
CRITERIONS = {"mse": MSEWithBudgetCriterion, "cross_entropy": CrossEntropyWithBudgetCriterion}


def model_output(prediction, updates=UPDATES):
    output = SkipRNNOutput(prediction, updates, STEPS[: len(updates)], flops_per_update=10)
    model = lambda x: output  # noqa: E731
    model.get_normalized_probs = lambda *a, **k: SkipRNNModel.get_normalized_probs(model, *a, **k)
    return model


def sample(target):
    return {"net_input": {"x": None}, "target": target}


def build(kind, **options):
    return CRITERIONS[kind].build_criterion(BudgetConfig(**options), SimpleNamespace())


@pytest.mark.parametrize(
    "budget,target,expected",
    [("per_sample", None, [3, 1, 2]), ("l1", 2.0, [1, 1, 0]), ("l2", 1.0, [4, 0, 1]), ("l1", 0.0, [3, 1, 2])],
)
def test_mse_and_budgets(budget, target, expected):
    prediction = torch.tensor([[1.0], [2.0], [-1.0]], requires_grad=True)
    updates = UPDATES.clone().requires_grad_()
    criterion = build("mse", cost_per_sample=0.1, budget=budget, target_updates=target)
    loss, size, log = criterion(model_output(prediction, updates), sample(torch.tensor([0.0, 2.0, 2.0])))
    assert size == 3
    torch.testing.assert_close(loss, torch.tensor(0.5 * (1 + 0 + 9) + 0.1 * sum(expected)))
    assert log["squared_error"] == 10 and float(log["task_loss"]) == 5
    torch.testing.assert_close(log["budget_loss"], torch.tensor(0.1 * sum(expected)))
    loss.backward()
    torch.testing.assert_close(prediction.grad, torch.tensor([[1.0], [0.0], [-3.0]]))
    count = UPDATES.sum(1)
    slope = {"per_sample": torch.ones(3), "l1": (count - (target or 0)).sign(), "l2": 2 * (count - (target or 0))}[
        budget
    ]
    torch.testing.assert_close(updates.grad, (0.1 * slope).unsqueeze(1).expand(3, 4))


@pytest.mark.parametrize("scale", [None, [1.0, 10.0]], ids=["no unit", "units"])
def test_the_error_is_a_mean_over_outputs(scale):
    """The loss is without units, so that no output outweighs another; the error that is logged has them."""
    criterion = build("mse")
    criterion.task.target_scale = scale
    prediction = torch.tensor([[2.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    log = criterion(model_output(prediction), sample(torch.zeros(3, 2)))[2]
    assert float(log["task_loss"]) == 0.5 * (2 + 2)
    assert float(log["squared_error"]) == (2 + 2 if scale is None else 2 + 200)


def test_cross_entropy_is_in_nats():
    logits = torch.tensor([[2.0, 0.0], [0.0, 0.0], [0.0, 3.0]])
    criterion = build("cross_entropy", cost_per_sample=0.5)
    loss, size, log = criterion(model_output(logits), sample(torch.tensor([0, 1, 0])))
    expected = math.log(1 + math.exp(-2)) + math.log(2) + math.log(1 + math.exp(3))
    assert size == 3 and float(log["task_loss"]) == pytest.approx(expected, rel=1e-6)
    assert float(loss) == pytest.approx(expected + 0.5 * 6, rel=1e-6)
    assert float(log["correct"]) == 1


@pytest.mark.parametrize("kind, outputs", [("mse", 1), ("mse", 2), ("cross_entropy", 3)])
def test_predictions_at_every_step_count_where_steps_are_real(kind, outputs):
    """As those of sequences without padding, one by one; what is predicted at padding has no effect."""
    torch.manual_seed(0)
    lengths, criterion = [4, 1, 3, 0], build(kind, cost_per_sample=0.5)
    criterion.task.target_scale = 3.0 if kind == "mse" else None
    prediction = torch.randn(4, 4, outputs, requires_grad=True)  # as many steps as sequences
    target = torch.randn(4, 4, outputs) if kind == "mse" else torch.randint(3, (4, 4))
    target = target.squeeze(-1) if outputs == 1 else target
    batch = {"net_input": {"x": None, "lengths": torch.tensor(lengths)}, "target": target}

    def run(prediction, batch):
        updates = torch.ones(prediction.shape[:2])
        output = SkipRNNOutput(prediction, updates, torch.full((len(updates),), 4), flops_per_update=10)
        model = model_output(prediction)
        call = lambda x, lengths=None: output  # noqa: E731
        call.get_normalized_probs = model.get_normalized_probs
        return criterion(call, batch)

    loss, size, log = run(prediction, batch)
    loss.backward()
    assert size == 4 and prediction.grad[1, 1:].abs().sum() == 0 < prediction.grad[1, 0].abs().sum()
    alone = [
        run(prediction[[row], :length].detach(), {"net_input": {"x": None}, "target": target[[row], :length]})[2]
        for row, length in enumerate(lengths[:3])
    ]
    for name in ("task_loss", "squared_error" if kind == "mse" else "correct"):
        assert float(log[name]) == pytest.approx(sum(float(row[name]) for row in alone), rel=1e-5) and log[name] != 0
    assert float(log["budget_loss"]) == 0.5 * 16


def test_half_precision_predictions_give_float32_losses():
    loss, _, log = build("mse")(model_output(torch.ones(3, 1, dtype=torch.float16)), sample(torch.zeros(3)))
    assert loss.dtype == torch.float32 and float(log["squared_error"]) == 3


def log_values(criterion, logs):
    with metrics.aggregate(new_root=True) as aggregator:
        for group in logs:
            criterion.reduce_metrics(group)
            criterion.log_budget(group)
    return aggregator.get_smoothed_values()


@pytest.mark.parametrize("kind", CRITERIONS)
def test_logged_metrics_do_not_depend_on_the_cut_into_batches(kind):
    torch.manual_seed(0)
    updates = (torch.rand(7, 6) < 0.6).float()
    steps = torch.tensor([6, 6, 3, 6, 1, 6, 2])
    updates = updates * (torch.arange(6) < steps.unsqueeze(1))
    prediction = torch.randn(7, 1 if kind == "mse" else 3)
    target = torch.randn(7) if kind == "mse" else torch.randint(3, (7,))
    increment = torch.rand(2, 7)  # of two directions
    criterion = build(kind, cost_per_sample=0.25)

    def log(rows):
        output = SkipRNNOutput(prediction[rows], updates[rows], steps[rows], 10, increment[:, rows])
        model = model_output(prediction[rows])
        call = lambda x: output  # noqa: E731
        call.get_normalized_probs = model.get_normalized_probs
        return criterion(call, sample(target[rows]))[2]

    whole = log_values(criterion, [[log(slice(0, 7))]])
    accumulated = log_values(criterion, [[log(slice(0, 4)), log(slice(4, 7))]])
    batches = log_values(criterion, [[log(slice(0, 1))], [log(slice(1, 6))], [log(slice(6, 7))]])
    assert accumulated == pytest.approx(whole) and batches == pytest.approx(whole)
    count = updates.sum(1).double()
    assert whole["updates"] == pytest.approx(float(count.mean()))
    assert whole["updates_std"] == pytest.approx(float(count.std(unbiased=False)))
    assert whole["update_fraction"] == pytest.approx(float(count.sum() / steps.sum()))
    assert whole["increment"] == pytest.approx(float(increment.mean()))
    assert whole["increment_std"] == pytest.approx(float(increment.std(unbiased=False)))
    assert whole["flops"] == pytest.approx(10 * float(count.mean()))
    if kind == "mse":
        assert whole["mse"] == pytest.approx(float((prediction[:, 0] - target).square().mean()))
        assert whole["task_loss"] == pytest.approx(whole["mse"] / 2)
    else:
        assert whole["accuracy"] == pytest.approx(float((prediction.argmax(1) == target).double().mean()))
        assert whole["task_loss"] == pytest.approx(float(torch.nn.functional.cross_entropy(prediction, target)))
    assert whole["loss"] == pytest.approx(whole["task_loss"] + whole["budget_loss"])
    assert whole["budget_loss"] == pytest.approx(0.25 * whole["updates"])


def test_squares_are_summed_in_double_precision():
    """float32 has no 16785409."""
    count = torch.tensor([4097.0, 4097.0])
    assert float(plugin_metrics.update_sums(count, count, count, None)["updates_squared"]) == 2 * 4097**2


@pytest.mark.parametrize("size, value", [(3, 0.1), (6, 0.7), (7, 0.7)])
def test_the_deviation_of_equal_numbers_is_0(size, value):
    """Though by rounding the mean of the squares is less than the square of the mean."""
    totals = {"increments": size, "increment": sum([value] * size), "increment_squared": sum([value**2] * size)}
    with metrics.aggregate(new_root=True) as meters:
        plugin_metrics.log_updates(totals)
    assert meters.get_smoothed_values()["increment_std"] == pytest.approx(0, abs=1e-7)


def test_without_a_gate_no_increment_is_logged():
    criterion = build("mse")
    logged = log_values(criterion, [[criterion(model_output(torch.ones(3, 1)), sample(torch.zeros(3)))[2]]])
    assert "updates" in logged and "updates_std" in logged
    assert not {name for name in logged if "increment" in name}


def test_nothing_to_count_logs_nothing():
    assert log_values(build("mse"), [[], [{"nsentences": 0, "sample_size": 0, "loss": 0.0}]]) == {}
    assert plugin_metrics.add_up([]) == {}


@pytest.mark.parametrize(
    "options,message",
    [
        ({"cost_per_sample": -1e-5}, "--cost-per-sample.*-1e-05"),
        ({"cost_per_sample": math.nan}, "--cost-per-sample.*nan"),
        ({"cost_per_sample": math.inf}, "--cost-per-sample.*inf"),
        ({"budget": "l3"}, "--budget.*l3"),
        ({"budget": "l1"}, "--target-updates.*l1 takes a target, got None"),
        ({"target_updates": 5.0}, "--target-updates.*per_sample takes no target, got 5.0"),
        ({"budget": "l2", "target_updates": -1.0}, "--target-updates.*-1.0"),
        ({"budget": "l1", "target_updates": math.inf}, "--target-updates.*inf"),
        ({"cost_warmup_updates": -1}, "--cost-warmup-updates.*-1"),
        ({"target_fraction": 1.5, "cost_per_sample": 1.0}, "--target-fraction.*1.5"),
        ({"target_fraction": math.nan, "cost_per_sample": 1.0}, "--target-fraction.*nan"),
        (
            {"target_fraction": 0.5, "cost_per_sample": 1.0, "budget": "l1", "target_updates": 2.0},
            "--target-fraction.*l1",
        ),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        build("mse", **options)
