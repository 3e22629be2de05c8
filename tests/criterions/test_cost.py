"""Lambda: constant, warmed up, and found for a target fraction; alone and in ``fairseq-train``."""

import itertools
import re
import warnings
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from omegaconf import OmegaConf

import skiprnn_plugin  # noqa: F401
from skiprnn_plugin import metrics as plugin_metrics
from skiprnn_plugin.criterions.budget import BudgetLoss
from skiprnn_plugin.criterions.cost import Cost
from skiprnn_plugin.modules import Budget
from skiprnn_plugin.modules import budget as rule_module
from skiprnn_plugin.runs.checkpoint import read_runs

from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY  # isort: skip
from fairseq.logging import metrics  # isort: skip

from ..command_line import train, validate
from ..ranks import run_ranks

STEPS = torch.tensor([20])


def values(cost, fractions, losses=None):
    """Lambda of 20 steps before every training update."""
    seen = []
    for fraction, loss in zip(fractions, [1.0] * len(fractions) if losses is None else losses, strict=True):
        seen.append(float(cost.of_steps(STEPS)))
        cost.step(fraction, loss)
    return seen


def test_constant():
    assert values(Cost(0.25), [1.0, 0.5, 0.0]) == [0.25] * 3
    assert not list(Cost(0.25).parameters())


def test_warmup_is_linear_from_0():
    assert values(Cost(0.5, warmup_updates=4), [1.0] * 6) == [0, 0.125, 0.25, 0.375, 0.5, 0.5]


@pytest.mark.parametrize("warmup,ramp", [(0, 600), (70, 70)])
def test_a_target_is_reached_by_the_rule_of_the_budget(warmup, ramp):
    """What lambda costs is the budget's price; --cost-per-sample plays no part."""
    cost, budget = Cost(0.5, warmup, target_fraction=0.3), Budget(0.3, ramp)
    losses = [1.0] * 60 + [0.5] * 140
    seen = values(cost, [0.9] * 200, losses)
    prices = []
    for loss in losses:
        prices.append(budget.price() / 20)
        budget.step(0.9, loss)
    assert seen == pytest.approx(prices) and seen[60] == 0 < seen[199]
    expected = budget.cost(torch.tensor([0.5, 0.1]))
    torch.testing.assert_close(cost(torch.tensor([10.0, 4.0]), torch.tensor([20, 40])), expected)


@pytest.mark.parametrize("target", [None, 0.4])
def test_state_goes_on(target):
    first, second = (Cost(1e-3, warmup_updates=3, target_fraction=target) for _ in range(2))
    losses = [1.0] * 60 + [0.3] * 60
    values(first, [0.9] * 120, losses)
    second.load_state_dict(first.state_dict())
    assert values(second, [0.6] * 5, [0.3] * 5) == values(first, [0.6] * 5, [0.3] * 5) != [0.0] * 5


def test_state_of_another_kind_of_cost_is_not_taken():
    cost = Cost(0.0, target_fraction=0.4)
    state = cost.state_dict()
    cost.set_extra_state({"num_updates": 7, "error": 0.1, "integral": 0.2})  # of a version before
    assert cost.state_dict()["_extra_state"] == state["_extra_state"]


OPTIONS = ("--cost-warmup-updates", 3, "--target-fraction", 0.5, "--lr", 0.01)


@pytest.fixture
def rule_at_once(monkeypatch):
    """Samples cost something from the second training update on."""
    monkeypatch.setattr(rule_module, "WAIT_UPDATES", 0)
    monkeypatch.setattr(rule_module, "LATEST_START", 0)


FREQUENCY = {"task": "frequency_discrimination"}
CRITERIONS = [(), ("--criterion", "with_budget", "--base-criterion", "cross_entropy", "--sentence-avg")]


def lambdas(stats, tag="train_inner"):
    return [s["cost_per_sample" if tag == "train_inner" else f"{tag}_cost_per_sample"] for s in stats[tag]]


def expected_lambdas(stats, steps):
    cost = Cost(0.0, 3, 0.5)
    seen = values(cost, [s["update_fraction"] for s in stats], [s["task_loss"] for s in stats])
    return [20 * value / steps for value in seen], cost


@pytest.mark.usefixtures("rule_at_once")
def test_in_a_run(tmp_path):
    stats = train(tmp_path, *OPTIONS, "--max-update", 6)
    steps = round(stats["train_inner"][0]["updates"] / stats["train_inner"][0]["update_fraction"])
    seen, cost = expected_lambdas(stats["train_inner"], steps)
    assert lambdas(stats) == pytest.approx(seen, rel=1e-3) and seen[-1] > 0
    for s in stats["train_inner"]:
        assert s["budget_loss"] == pytest.approx(s["cost_per_sample"] * s["updates"], rel=1e-3)
    after = float(cost.of_steps(torch.tensor([steps])))
    assert lambdas(stats, "valid")[-1] == pytest.approx(after, rel=1e-3)  # what the next update will cost


def steps_of_lambda(folder, *options):
    """In this process: what each training update took in, and lambda after it."""
    seen, step = [], Cost.step

    def note(cost, *taken):
        step(cost, *taken)
        seen.append((*taken, cost.rule.price()))

    with (
        mock.patch.object(Cost, "step", note),
        mock.patch.object(rule_module, "WAIT_UPDATES", 0),
        mock.patch.object(rule_module, "LATEST_START", 0),
    ):
        train(folder, *OPTIONS, "--binarize", "bernoulli", "--batch-size", 8, "--max-update", 6, *options, **FREQUENCY)
    return seen


@pytest.mark.parametrize("criterion", CRITERIONS, ids=["ours", "with_budget"])
def test_processes_have_the_same_lambda(tmp_path, criterion):
    """That of one process which accumulates as many batches."""
    one = steps_of_lambda(tmp_path / "one", *criterion, "--update-freq", 2)
    first, second = run_ranks(steps_of_lambda, tmp_path / "two", *criterion)
    assert len({fraction for fraction, *_ in one}) > 2  # batches differ, and so do those of the processes
    assert first == second
    for ours, expected in zip(first, one, strict=True):
        assert ours == pytest.approx(expected, rel=1e-4)


@pytest.mark.usefixtures("rule_at_once")
@pytest.mark.parametrize("criterion", CRITERIONS, ids=["ours", "with_budget"])
def test_evaluation_has_the_lambda_of_training(tmp_path, criterion):
    trained = train(tmp_path, *OPTIONS, *criterion, "--max-update", 6, **FREQUENCY)["valid"][-1]
    evaluated = validate(tmp_path / "checkpoint_last.pt", **FREQUENCY)["valid"][-1]
    (run,) = read_runs([tmp_path / "checkpoint_last.pt"], "valid", {})
    assert trained["valid_cost_per_sample"] > 0
    for name in ("loss", "task_loss", "budget_loss", "cost_per_sample"):
        assert evaluated[f"valid_{name}"] == pytest.approx(trained[f"valid_{name}"], rel=1e-3)
        assert run.metrics[name] == pytest.approx(trained[f"valid_{name}"], rel=1e-3)


@pytest.mark.usefixtures("rule_at_once")
@pytest.mark.parametrize(
    "stop,criterion",
    [(2, CRITERIONS[0]), (4, CRITERIONS[0]), (5, CRITERIONS[0]), (5, CRITERIONS[1])],
    ids=["in the warm-up", "end of an epoch", "mid-epoch", "with_budget"],
)
def test_resuming_goes_on_with_lambda(tmp_path, stop, criterion):
    options = (*OPTIONS, *criterion, "--max-update")
    whole = train(tmp_path / "whole", *options, 8, **FREQUENCY)
    first = train(tmp_path / "halves", *options, stop, **FREQUENCY)
    second = train(tmp_path / "halves", *options, 8, **FREQUENCY)
    assert lambdas(first) + lambdas(second) == lambdas(whole)
    losses = [[s["loss"] for s in stats["train_inner"]] for stats in (first, second, whole)]
    assert losses[0] + losses[1] == losses[2]


@pytest.mark.usefixtures("rule_at_once")
@pytest.mark.parametrize(
    "cost", [OPTIONS, ("--cost-per-sample", 1e-3, "--cost-warmup-updates", 4)], ids=["a target", "a warm-up"]
)
@pytest.mark.parametrize("criterion", CRITERIONS, ids=["ours", "with_budget"])
def test_lambda_starts_where_the_count_of_updates_does(tmp_path, cost, criterion):
    options = (*cost, *criterion, "--max-update")
    first = train(tmp_path / "first", *options, 6, **FREQUENCY)
    checkpoint = tmp_path / "first/checkpoint_last.pt"
    second = train(tmp_path / "second", *options, 3, "--finetune-from-model", checkpoint, **FREQUENCY)
    third = train(tmp_path / "first", *options, 2, "--reset-optimizer", **FREQUENCY)
    assert lambdas(second)[0] == lambdas(third)[0] == 0 < lambdas(first)[-1]
    assert [line["num_updates"] for line in second["train_inner"] + third["train_inner"]] == [1, 2, 3, 1, 2]
    for folder, updates in (("second", 3), ("first", 2)):
        state = torch.load(tmp_path / folder / "checkpoint_last.pt", weights_only=True)
        for progress in (state["criterion"]["budget.cost._extra_state"], state["task_state"]["cost"]):
            assert progress["num_updates"] == updates


def test_update_freq_counts_updates_not_batches(tmp_path):
    warmup = ("--cost-per-sample", 1e-3, "--cost-warmup-updates", 3)
    stats = train(tmp_path, *warmup, "--lr", 0.01, "--update-freq", 2, "--max-update", 5)
    assert lambdas(stats)[:4] == pytest.approx([0, 1e-3 / 3, 2e-3 / 3, 1e-3], rel=1e-4)


@pytest.mark.parametrize("criterion", CRITERIONS, ids=["ours", "with_budget"])
def test_goes_on_from_a_checkpoint_with_a_constant_lambda(tmp_path, criterion):
    train(tmp_path, *criterion, "--max-update", 2, **FREQUENCY)
    stats = train(tmp_path, *OPTIONS, *criterion, "--max-update", 4, **FREQUENCY)
    assert lambdas(stats)[0] == 0
    state = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)["criterion"]
    assert state["budget.cost._extra_state"]["num_updates"] == 2


@pytest.mark.usefixtures("rule_at_once")
@pytest.mark.parametrize("precision", [("--fp16", "--fp16-no-flatten-grads"), ("--amp",)], ids=" ".join)
def test_half_precision_leaves_lambda_exact(tmp_path, precision):
    stats = train(tmp_path, *OPTIONS, "--max-update", 6, *precision)
    steps = round(stats["train_inner"][0]["updates"] / stats["train_inner"][0]["update_fraction"])
    seen, _ = expected_lambdas(stats["train_inner"], steps)
    assert lambdas(stats) == pytest.approx(seen, rel=1e-3) and seen[-1] > 0


def sums(fraction, task_loss, increment, sequences=4, steps=100):
    """Totals of a batch in which every gate ends with the same update probability."""
    count = torch.full((sequences,), fraction * steps)
    logged = plugin_metrics.update_sums(count, torch.full((sequences,), steps), count, torch.full((4,), increment))
    return plugin_metrics.add_up(
        [{"nsentences": sequences, "sample_size": sequences, "task_loss": task_loss * sequences, **logged}]
    )


@pytest.mark.parametrize(
    "options,fractions,increment,message",
    [
        (
            (1e-3, 0, "per_sample", None, None),
            [0.01],
            0.001,
            "--cost-per-sample: only 1.0% .*not learned.*--target-frac",
        ),
        ((0.0, 0, "per_sample", None, 0.25), [0.01], 0.001, "--target-fraction: 1.0% .* 25.0% .*--gate-init zeros"),
        ((1e-3, 0, "per_sample", None, None), [0.01], 0.3, None),
        ((1e-3, 0, "per_sample", None, None), [0.2], 0.001, None),
        ((1e-3, 0, "per_sample", None, None), [0.01] * 89 + [0.2], 0.001, None),
    ],
    ids=["closed", "closed, with a target", "open", "samples are used", "samples are used at times"],
)
def test_warns_once_of_a_closed_gate(options, fractions, increment, message):
    """The training updates use these fractions in turn."""
    budget = BudgetLoss(*options)
    with warnings.catch_warnings(record=True) as caught, metrics.aggregate(new_root=True):
        warnings.simplefilter("always")
        for fraction in itertools.islice(itertools.cycle(fractions), 250):
            budget.log(sums(fraction, 1.0, increment))
    assert len(caught) == (message is not None)
    assert not caught or re.search(message, str(caught[0].message))


def test_warns_of_a_missed_target_in_the_last_validation():
    budget = BudgetLoss(0.0, 0, "per_sample", None, 0.25)
    budget.plan(30)
    with metrics.aggregate(new_root=True), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for update in range(30):
            budget.train().log(sums(0.8, 1.0, 0.5))
            if update in (9, 29):
                budget.eval().log(sums(0.8, 1.0, 0.5))
                assert len(caught) == (update == 29)
    assert "80.0% of the samples are used, where 25.0% are wanted" in str(caught[0].message)


@pytest.mark.parametrize(
    "max_update, warmup_updates, ramp", [(0, 0, 600), (9000, 0, 600), (1000, 0, 200), (1000, 70, 70), (3, 0, 1)]
)
@pytest.mark.parametrize("name", ["cross_entropy_with_budget", "with_budget"])
def test_the_ramp_fits_into_a_short_training(name, max_update, warmup_updates, ramp):
    """In the criterion that fairseq builds for a run."""
    options = {"cost_warmup_updates": warmup_updates, "target_fraction": 0.5}
    options.update({"base_criterion": "cross_entropy"} if name == "with_budget" else {})
    criterion = OmegaConf.structured(CRITERION_DATACLASS_REGISTRY[name](**options))
    cfg = OmegaConf.create({"optimization": {"max_update": max_update, "sentence_avg": False}, "criterion": criterion})
    built = CRITERION_REGISTRY[name].build_criterion(cfg.criterion, SimpleNamespace(state=None))
    assert built.budget.cost.rule.ramp_updates == ramp
