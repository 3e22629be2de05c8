"""The frequency discrimination task through fairseq's own commands."""

import pytest
import torch

from .. import command_line

TASK = "frequency_discrimination"


def train(save_dir, *options):
    return command_line.train(save_dir, *options, task=TASK)


def validate(save_dir, *options):
    return command_line.validate(save_dir / "checkpoint_last.pt", *options, task=TASK)


def losses(stats):
    return [(s["num_updates"], s["loss"], s["accuracy"]) for s in stats["train_inner"]]


@pytest.mark.parametrize(
    "options,steps",
    [
        (("--arch", "skip_lstm"), 12),
        (("--arch", "skip_gru", "--gru-reset", "before", "--sampling-period", "0.5"), 24),
        (("--arch", "full_lstm", "--min-period", "0", "--max-period", "20"), 12),
        (("--sampling-period", "0.7"), 17),
        (("--sampling-period", "12"), 1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else f"{value} steps",
)
def test_trains_validates_and_logs_the_metrics(tmp_path, options, steps):
    stats = train(tmp_path, *options)
    names = {"loss", "task_loss", "budget_loss", "accuracy", "solved", "updates", "updates_std", "update_fraction"}
    assert names <= set(stats["train_inner"][-1])
    valid = stats["valid"][-1]
    assert {f"valid_{name}" for name in names} <= set(valid)
    assert valid["valid_loss"] == pytest.approx(valid["valid_task_loss"] + valid["valid_budget_loss"], rel=1e-5)
    assert valid["valid_update_fraction"] == pytest.approx(valid["valid_updates"] / steps, rel=1e-5)
    assert [s["num_updates"] for s in stats["train_inner"]] == [1, 2, 3, 4]
    weights = torch.load(tmp_path / "checkpoint_last.pt", weights_only=False)["model"]
    assert weights["head.weight"].shape == (2, 8) and weights["rnn.weight_ih_l0"].shape[1] == 1


def test_sequences_are_100_ms_by_default(tmp_path):
    stats = train(tmp_path, "--sequence-duration", 100, "--arch", "full_gru", "--max-update", 1)
    assert stats["valid"][-1]["valid_updates"] == 100
    separate = validate(tmp_path, "--sequence-duration", 100, "--sampling-period", 0.5)
    assert separate["valid"][-1]["valid_updates"] == 200


def test_every_held_out_sequence_counts(tmp_path):
    """36 sequences in batches of 16: fairseq's default flags would drop the last four."""
    trained = train(tmp_path)["valid"][-1]
    assert trained["valid_bsz"] == 12  # 36 in 3 batches
    one_batch = validate(tmp_path, "--batch-size", 36)["valid"][-1]
    for name in ("loss", "accuracy", "updates", "updates_std"):
        assert one_batch[f"valid_{name}"] == pytest.approx(trained[f"valid_{name}"], rel=1e-5)
    correct = 36 * trained["valid_accuracy"]
    assert correct == pytest.approx(round(correct), abs=1e-3)


def test_held_out_sets_are_fixed_by_their_own_seed(tmp_path):
    train(tmp_path, "--max-update", 1)

    def loss(*options, split="valid"):
        return validate(tmp_path, *options, "--valid-subset", split)[split][-1][f"{split}_loss"]

    assert loss("--seed", 5) == loss()
    assert len({loss(), loss(split="test"), loss("--valid-seed", 5)}) == 3


def test_a_run_repeats_with_any_number_of_workers(tmp_path):
    runs = [train(tmp_path / str(n), "--max-update", 10, "--num-workers", n) for n in (0, 2)]  # 2.5 epochs
    assert losses(runs[0]) == losses(runs[1])
    assert [s["valid_loss"] for s in runs[0]["valid"]] == [s["valid_loss"] for s in runs[1]["valid"]]
    assert losses(runs[0]) != losses(train(tmp_path / "seed", "--max-update", 10, "--seed", 2))


@pytest.mark.parametrize("workers", [0, 1])
def test_every_epoch_is_new(tmp_path, workers):
    """With a frozen model the training loss changes from one epoch to the next only if the data does."""
    stats = train(tmp_path, "--lr", 0, "--max-update", 12, "--num-workers", workers)
    assert len({epoch["train_loss"] for epoch in stats["train"]}) == 3
    assert len({epoch["valid_loss"] for epoch in stats["valid"]}) == 1


def test_stops_once_solved_below_the_fraction(tmp_path):
    # An easy case: all waves of class 1 are so slow that they hardly change within the 3 ms of a sequence.
    options = ("--min-period", 5, "--max-period", 10000, "--sequence-duration", 3, "--hidden-size", 16, "--lr", 0.01)
    options += ("--train-size", 640, "--valid-size", 300, "--max-update", 2000)
    stats = train(tmp_path, *options, "--log-interval", 1000, "--stop-update-fraction", 1)
    *before, solved = stats["valid"]
    assert all(s["valid_solved"] == 0 and s["valid_accuracy"] <= 0.99 for s in before)
    assert solved["valid_solved"] == 1 and solved["valid_accuracy"] > 0.99 and solved["valid_num_updates"] < 2000


@pytest.mark.parametrize(
    "options,message",
    [
        (("--sampling-period", "0"), "^--sampling-period: expected ms above 0, got 0.0$"),
        (("--sampling-period", "nan"), "^--sampling-period: .*got nan$"),
        (("--sampling-period", "inf"), "^--sampling-period: .*got inf$"),
        (("--sequence-duration", "0.5"), "^--sequence-duration: expected at least --sampling-period, .*got 0.5$"),
        (("--sequence-duration", "inf"), "^--sequence-duration: .*got inf$"),
        (("--min-period=-1",), "^--min-period: expected 0 to 5.0 ms, got -1.0$"),
        (("--min-period", "5.5"), "^--min-period: .*got 5.5$"),
        (("--max-period", "6"), "^--max-period: expected ms above 6.0, got 6.0$"),
        (("--max-period", "nan"), "^--max-period: .*got nan$"),
        (("--max-period", "inf"), "^--max-period: .*got inf$"),
        (("--train-size", "0"), "^--train-size: .*got 0$"),
        (("--valid-size", "-3"), "^--valid-size: .*got -3$"),
        (("--valid-seed", "-1"), "^--valid-seed: .*got -1$"),
        (("--stop-update-fraction", "1.5"), "^--stop-update-fraction: .*got 1.5$"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_options(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        train(tmp_path, *options)
