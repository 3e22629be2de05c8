"""The number by which fairseq keeps the checkpoint that uses the fewest samples and is good enough."""

import math
import warnings

import pytest

import skiprnn_plugin  # noqa: F401
from skiprnn_plugin.criterions.good import UsedIfGood

from ..command_line import train

from fairseq.logging import metrics  # isort: skip


def measure(good, **logged):
    with metrics.aggregate(new_root=True) as meters:
        for name, value in logged.items():
            metrics.log_scalar(name, value)
        metrics.log_derived("ppl", lambda meters: 2 ** meters["loss"].avg)
        good.log()
    return meters.get_smoothed_values()["used_if_good"]


@pytest.mark.parametrize(
    "at_least, at_most, logged, expected",
    [
        ("accuracy=0.9", None, {"accuracy": 0.9, "update_fraction": 0.3}, 0.3),
        ("accuracy=0.9", None, {"accuracy": 0.8, "update_fraction": 0.3}, 1.1),
        (None, "mse=0.1", {"mse": 0.05, "update_fraction": 0.3}, 0.3),
        (None, " mse = 0.1 ", {"mse": 2.1, "update_fraction": 0.3}, 3.0),
        (None, "ppl=8", {"loss": 3.0, "update_fraction": 0.3}, 0.3),  # which fairseq derives from the loss
        ("accuracy=0.9", None, {"accuracy": math.nan, "update_fraction": 0.3}, math.inf),
    ],
)
def test_by_hand(at_least, at_most, logged, expected):
    assert measure(UsedIfGood(at_least, at_most), **{"loss": 1.0, **logged}) == pytest.approx(expected)


def test_a_metric_that_is_not_logged():
    good = UsedIfGood("acc=0.9", None)
    message = "--good-at-least: expected one of the logged metrics accuracy, loss, ppl, update_fraction, got 'acc'"
    with pytest.warns(UserWarning, match=message):
        assert measure(good, loss=1.0, accuracy=0.9, update_fraction=0.3) == math.inf
    assert measure(good, loss=1.0, acc=0.9, update_fraction=0.3) == 0.3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert measure(good, loss=1.0, update_fraction=0.3) == math.inf  # a batch without it, and no second warning


@pytest.mark.parametrize(
    "options, message",
    [
        (("a=1", "b=1"), "--good-at-least, --good-at-most: expected one of them, got both"),
        (("accuracy", None), "--good-at-least: expected METRIC=VALUE, as accuracy=0.95, got 'accuracy'"),
        ((None, "mse=x"), "--good-at-most: expected METRIC=VALUE, as accuracy=0.95, got 'mse=x'"),
        ((None, "mse=nan"), "--good-at-most: .*got 'mse=nan'"),
        (("=1", None), "--good-at-least: .*got '=1'"),
        (("used_if_good=0.5", None), "--good-at-least: expected another metric than used_if_good"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        UsedIfGood(*options)


ADDING = ("--max-update", 12, "--validate-interval-updates", 2, "--lr", 1e-2, "--update-bias", -0.3)
WITHIN = ("--criterion", "with_budget", "--base-criterion", "cross_entropy", "--sentence-avg")


@pytest.mark.parametrize(
    "task, options",
    [
        ("adding", ("--good-at-most", "mse=1")),
        ("frequency_discrimination", ("--good-at-least", "accuracy=0")),
        ("frequency_discrimination", ("--good-at-most", "ppl=1000", *WITHIN)),
    ],
    ids=["mse", "accuracy", "with_budget"],
)
def test_the_best_checkpoint_is_the_thriftiest(tmp_path, task, options):
    """Where all are good enough."""
    best = ("--best-checkpoint-metric", "used_if_good", "--cost-per-sample", 1e-2)
    stats = train(tmp_path, *ADDING, *options, *best, task=task)
    used = [stage["valid_update_fraction"] for stage in stats["valid"]]
    assert len(set(used)) > 1 and [stage["valid_used_if_good"] for stage in stats["valid"]] == pytest.approx(used)
    assert stats["valid"][-1]["valid_best_used_if_good"] == pytest.approx(min(used))
    assert "used_if_good" not in stats["train"][-1]
