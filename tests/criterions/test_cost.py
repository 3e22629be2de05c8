"""Lambda: constant, warmed up, and adjusted by the controller; alone and in ``fairseq-train``."""

import math
from unittest import mock

import pytest
import torch

import skiprnn_plugin  # noqa: F401
from skiprnn_plugin.criterions.cost import Cost
from skiprnn_plugin.runs.checkpoint import read_runs

from ..command_line import train, validate
from ..ranks import run_ranks


def values(cost, fractions):
    seen = []
    for fraction in fractions:
        seen.append(cost.value)
        cost.step(fraction)
    return seen


def test_constant():
    assert values(Cost(0.25), [1.0, 0.5, 0.0]) == [0.25] * 3
    assert not list(Cost(0.25).parameters())


def test_warmup_is_linear_from_0():
    assert values(Cost(0.5, warmup_updates=4), [1.0] * 6) == [0, 0.125, 0.25, 0.375, 0.5, 0.5]


def test_controller_raises_lambda_above_the_target_and_lowers_it_below():
    above, below, at = (values(Cost(0.1, target_fraction=0.5), [f] * 50) for f in (0.9, 0.1, 0.5))
    assert above[0] == below[0] == 0.1 and at == [0.1] * 50
    assert all(a < b for a, b in zip(above, above[1:])) and all(a > b for a, b in zip(below, below[1:]))
    assert above[-1] * below[-1] == pytest.approx(0.01)  # as far up as down, in logarithms


def test_controller_waits_for_the_warmup():
    cost = Cost(0.1, warmup_updates=10, target_fraction=0.5)
    assert values(cost, [1.0] * 10) == pytest.approx([0.01 * n for n in range(10)])
    assert cost.value > 0.1


def test_controller_stays_within_bounds_and_comes_back():
    cost = Cost(1e-3, target_fraction=0.2)
    values(cost, [1.0] * 10_000)
    assert cost.value == pytest.approx(1e-3 * 1e4)
    assert next(n for n in range(10_000) if cost.step(0.0) or cost.value < 1e-3) < 1000


def test_controller_settles_a_gate_that_answers_slowly():
    """A fraction that follows -log10(lambda) with a lag of 100 updates, as a gate that has to be trained does."""
    for start in (1e-6, 1e-4, 1e-2):
        cost, fraction, seen = Cost(start, target_fraction=0.4), 1.0, []
        for _ in range(6000):
            wanted = min(max((-1 - math.log10(cost.value)) / 5, 0.02), 1.0)
            fraction += (wanted - fraction) / 100
            cost.step(fraction)
            seen.append(fraction)
        assert max(abs(f - 0.4) for f in seen[-2000:]) < 0.01
        assert min(seen) > 0.2  # and on the way there never far below


def test_state_goes_on():
    first, second = (Cost(1e-3, warmup_updates=3, target_fraction=0.4) for _ in range(2))
    values(first, [0.9] * 7)
    second.load_state_dict(first.state_dict())
    assert values(second, [0.6] * 5) == values(first, [0.6] * 5)


OPTIONS = ("--cost-per-sample", 1e-3, "--cost-warmup-updates", 3, "--target-fraction", 0.5, "--lr", 0.01)


FREQUENCY = {"task": "frequency_discrimination"}
CRITERIONS = [(), ("--criterion", "with_budget", "--base-criterion", "cross_entropy", "--sentence-avg")]


def lambdas(stats, tag="train_inner"):
    return [s["cost_per_sample" if tag == "train_inner" else f"{tag}_cost_per_sample"] for s in stats[tag]]


def test_in_a_run(tmp_path):
    stats = train(tmp_path, *OPTIONS, "--max-update", 6)
    expected = Cost(1e-3, 3, 0.5)
    seen = values(expected, [s["update_fraction"] for s in stats["train_inner"]])
    assert lambdas(stats) == pytest.approx(seen, rel=1e-4)
    for s in stats["train_inner"]:
        assert s["budget_loss"] == pytest.approx(s["cost_per_sample"] * s["updates"], rel=1e-4)
    assert lambdas(stats, "valid")[-1] == pytest.approx(expected.value, rel=1e-4)  # what the next update will cost


def steps_of_lambda(folder, *options):
    """In this process: the fraction that each update took in, and lambda after it."""
    seen, step = [], Cost.step

    def note(cost, update_fraction):
        step(cost, update_fraction)
        seen.append((update_fraction, cost.value))

    with mock.patch.object(Cost, "step", note):
        train(folder, *OPTIONS, "--binarize", "bernoulli", "--batch-size", 8, "--max-update", 6, *options, **FREQUENCY)
    return seen


@pytest.mark.parametrize("criterion", CRITERIONS, ids=["ours", "with_budget"])
def test_processes_have_the_same_lambda(tmp_path, criterion):
    """That of one process which accumulates as many batches."""
    one = steps_of_lambda(tmp_path / "one", *criterion, "--update-freq", 2)
    first, second = run_ranks(steps_of_lambda, tmp_path / "two", *criterion)
    assert len({fraction for fraction, _ in one}) > 2  # batches differ, and so do those of the processes
    assert first == second
    for ours, expected in zip(first, one, strict=True):
        assert ours == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("updates", [2, 6], ids=["in the warm-up", "after it"])
@pytest.mark.parametrize("criterion", CRITERIONS, ids=["ours", "with_budget"])
def test_evaluation_has_the_lambda_of_training(tmp_path, criterion, updates):
    trained = train(tmp_path, *OPTIONS, *criterion, "--max-update", updates, **FREQUENCY)["valid"][-1]
    evaluated = validate(tmp_path / "checkpoint_last.pt", **FREQUENCY)["valid"][-1]
    (run,) = read_runs([tmp_path / "checkpoint_last.pt"], "valid", {})
    assert trained["valid_cost_per_sample"] != 1e-3
    for name in ("loss", "task_loss", "budget_loss", "cost_per_sample"):
        assert evaluated[f"valid_{name}"] == pytest.approx(trained[f"valid_{name}"], rel=1e-3)
        assert run.metrics[name] == pytest.approx(trained[f"valid_{name}"], rel=1e-3)


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


def test_update_freq_counts_updates_not_batches(tmp_path):
    stats = train(tmp_path, *OPTIONS, "--update-freq", 2, "--max-update", 5)
    assert lambdas(stats)[:3] == pytest.approx([0, 1e-3 / 3, 2e-3 / 3], rel=1e-4)


@pytest.mark.parametrize("criterion", CRITERIONS, ids=["ours", "with_budget"])
def test_goes_on_from_a_checkpoint_with_a_constant_lambda(tmp_path, criterion):
    train(tmp_path, *criterion, "--max-update", 2, **FREQUENCY)
    stats = train(tmp_path, *OPTIONS, *criterion, "--max-update", 4, **FREQUENCY)
    assert lambdas(stats)[0] == 0
    state = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)["criterion"]
    assert state["budget.cost._extra_state"]["num_updates"] == 2


@pytest.mark.parametrize("precision", [("--fp16", "--fp16-no-flatten-grads"), ("--amp",)], ids=" ".join)
def test_half_precision_leaves_lambda_exact(tmp_path, precision):
    stats = train(tmp_path, *OPTIONS, "--max-update", 6, *precision)
    seen = values(Cost(1e-3, 3, 0.5), [s["update_fraction"] for s in stats["train_inner"]])
    assert lambdas(stats) == pytest.approx(seen, rel=1e-4)
