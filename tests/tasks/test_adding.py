"""The adding task through fairseq's own commands."""

import pytest
import torch
from omegaconf import OmegaConf

from skiprnn_plugin.tasks.adding import AddingConfig, AddingTask

from ..command_line import train, validate


def parameters(save_dir, name="checkpoint_last.pt"):
    return torch.load(save_dir / name, weights_only=False)["model"]


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def losses(stats, tag="train_inner"):
    prefix = "" if tag == "train_inner" else f"{tag}_"
    return [(s[f"{prefix}num_updates"], s[f"{prefix}loss"], s[f"{prefix}mse"]) for s in stats[tag]]


@pytest.mark.parametrize(
    "options",
    [
        ("--arch", "skip_lstm"),
        ("--arch", "skip_gru", "--gru-reset", "before"),
        ("--arch", "random_skip_gru", "--skip-prob", "0.4"),
        ("--arch", "full_lstm", "--num-layers", "2", "--dropout", "0.1"),
        ("--binarize", "bernoulli", "--layer-norm"),
        ("--budget", "l1", "--target-updates", "5"),
        ("--cell", "rnn", "--num-layers", "2", "--gate-layers", "0,1"),
        ("--bidirectional", "--arch", "random_skip_gru"),
    ],
    ids=" ".join,
)
def test_trains_validates_and_logs_the_metrics(tmp_path, options):
    stats = train(tmp_path, *options)
    names = {"loss", "task_loss", "budget_loss", "mse", "solved", "updates", "updates_std", "update_fraction", "flops"}
    if "random_skip" not in " ".join(options) and "full" not in " ".join(options):
        names |= {"increment", "increment_std"}
    assert names <= set(stats["train_inner"][-1])
    valid = stats["valid"][-1]
    assert {f"valid_{name}" for name in names} <= set(valid)
    assert valid["valid_task_loss"] == pytest.approx(valid["valid_mse"] / 2, rel=1e-5)
    assert valid["valid_loss"] == pytest.approx(valid["valid_task_loss"] + valid["valid_budget_loss"], rel=1e-5)
    steps = 24 if "--bidirectional" in options else 12
    assert valid["valid_update_fraction"] == pytest.approx(valid["valid_updates"] / steps, rel=1e-5)
    assert [s["num_updates"] for s in stats["train_inner"]] == [1, 2, 3, 4]


def test_every_held_out_sequence_counts(tmp_path):
    """36 sequences in batches of 16: fairseq's default flags would drop the last four."""
    stats = train(tmp_path)
    trained = stats["valid"][-1]
    assert trained["valid_bsz"] == 12  # 36 in 3 batches
    separate = validate(tmp_path / "checkpoint_last.pt")["valid"][-1]
    one_batch = validate(tmp_path / "checkpoint_last.pt", "--batch-size", 36)["valid"][-1]
    for name in ("loss", "mse", "updates", "updates_std", "update_fraction", "flops"):
        assert separate[f"valid_{name}"] == pytest.approx(trained[f"valid_{name}"], rel=1e-5)
        assert one_batch[f"valid_{name}"] == pytest.approx(trained[f"valid_{name}"], rel=1e-5)


def test_other_held_out_sets_differ(tmp_path):
    train(tmp_path, "--max-update", 1)

    def mse(*options, split="valid"):
        return validate(tmp_path / "checkpoint_last.pt", *options, "--valid-subset", split)[split][-1][f"{split}_mse"]

    assert mse("--seed", 5) == mse()
    assert len({mse(), mse(split="test"), mse("--valid-seed", 5)}) == 3


@pytest.mark.parametrize("arch", ["skip_gru", pytest.param("random_skip_lstm", marks=pytest.mark.thorough)])
def test_a_run_repeats_bit_for_bit_with_any_number_of_workers(tmp_path, arch):
    options = ("--arch", arch, "--max-update", 10, "--dropout", 0.2)  # 2.5 epochs
    runs = {name: tmp_path / name for name in ("first", "again", "workers", "seed")}
    stats = {
        "first": train(runs["first"], *options),
        "again": train(runs["again"], *options),
        "workers": train(runs["workers"], *options, "--num-workers", 2),
        "seed": train(runs["seed"], *options, "--seed", 2),
    }
    for name in ("again", "workers"):
        assert losses(stats["first"]) == losses(stats[name])
        assert losses(stats["first"], "valid") == losses(stats[name], "valid")
        assert same(parameters(runs["first"]), parameters(runs[name]))
    assert losses(stats["first"]) != losses(stats["seed"])


@pytest.mark.parametrize("workers, split", [(0, "train"), (1, "train"), (0, "train1")])
def test_every_epoch_is_new(tmp_path, workers, split):
    """With a frozen model the training loss changes from one epoch to the next only if the data does."""
    options = ("--lr", 0, "--max-update", 12, "--num-workers", workers, "--train-subset", split)
    stats = train(tmp_path, *options)
    epochs = [epoch["train_mse"] for epoch in stats["train"]]
    assert len(set(epochs)) == 3
    assert len({epoch["valid_mse"] for epoch in stats["valid"]}) == 1


def test_update_freq_gives_the_metrics_and_steps_of_a_large_batch(tmp_path):
    """One epoch in one training update: as 4 batches of 16, as uneven ones (28 + 28 + 8), and as one of 64."""
    runs = {"large": (64, 1), "even": (16, 4), "uneven": (28, 3)}
    stats = {
        name: train(tmp_path / name, "--batch-size", size, "--update-freq", freq, "--max-update", 1, "--lr", 0.01)
        for name, (size, freq) in runs.items()
    }
    expected = parameters(tmp_path / "large")
    for name in ("even", "uneven"):
        for metric in ("mse", "loss", "updates", "updates_std", "update_fraction", "flops", "bsz", "gnorm"):
            large, cut = (stats[run]["train"][0][f"train_{metric}"] for run in ("large", name))
            assert cut == pytest.approx(large, rel=1e-5)
        for key, value in parameters(tmp_path / name).items():
            torch.testing.assert_close(value, expected[key], rtol=1e-4, atol=1e-5)


def test_uneven_last_batch_weighs_by_its_size(tmp_path):
    """20 sequences in batches of 16 and 4: with a frozen model the epoch's mean is that of one batch of 20."""
    options = ("--lr", 0, "--train-size", 20)
    uneven = train(tmp_path / "a", *options, "--batch-size", 16, "--max-update", 2)["train"][0]
    whole = train(tmp_path / "b", *options, "--batch-size", 20, "--max-update", 1)["train"][0]
    for name in ("train_mse", "train_loss", "train_updates", "train_updates_std"):
        assert uneven[name] == pytest.approx(whole[name], rel=1e-5)


@pytest.mark.parametrize("stop", [3, 6], ids=["mid-epoch", "second epoch"])
def test_resuming_equals_going_on(tmp_path, stop):
    whole = train(tmp_path / "whole", "--max-update", 9)
    first = train(tmp_path / "halves", "--max-update", stop)
    second = train(tmp_path / "halves", "--max-update", 9)
    assert losses(first) + losses(second) == losses(whole)
    assert same(parameters(tmp_path / "whole"), parameters(tmp_path / "halves"))


def test_training_data_depend_on_the_seed():
    def targets(seed):
        task = AddingTask(OmegaConf.create({**vars(AddingConfig()), "seed": seed}))
        task.load_dataset("train")
        task.load_dataset("valid")
        return task.dataset("train").target, task.dataset("valid").target

    (train1, valid1), (again, _), (train2, valid2) = (targets(seed) for seed in (1, 1, 2))
    assert (train1 == again).all() and not (train1 == train2).any() and (valid1 == valid2).all()


@pytest.mark.parametrize(
    "fraction, limit, stops",
    [(0.75, 0.75, True), (0.76, 0.75, False), (0.5, 0.0, False), (1.0, 1.0, True)],
    ids=["at-the-limit", "above", "never", "as-soon-as-solved"],
)
@pytest.mark.parametrize("solved", [0.0, 1.0])
@pytest.mark.parametrize("save_interval, is_saved", [(10, True), (20, False)], ids=["saved", "not-saved"])
def test_stop_rule(fraction, limit, stops, solved, save_interval, is_saved):
    """It ends at once only where the model of the validation is saved."""
    cfg = OmegaConf.create({
        "task": {**vars(AddingConfig()), "seed": 1, "stop_update_fraction": limit},
        "optimization": {"max_update": 1000, "stop_min_lr": -1.0},
        "dataset": {"validate_interval": 10},
        "checkpoint": {"save_interval": save_interval, "best_checkpoint_metric": "solved"},
    })  # fmt: skip
    task = AddingTask(cfg.task)
    task.post_validate(None, {"solved": solved, "update_fraction": fraction, "num_updates": 300}, None)
    assert cfg.optimization.max_update == (300 if stops and solved else 1000)
    assert (cfg.optimization.stop_min_lr == float("inf")) == bool(stops and solved and is_saved)


@pytest.mark.parametrize("interval", ["epoch", "updates"])
def test_stops_once_solved_below_the_fraction(tmp_path, interval):
    # With two steps, the sum of both values is learned very fast.
    options = ("--sequence-length", 2, "--lr", 0.01, "--hidden-size", 16, "--train-size", 3200, "--max-update", 2000)
    options += ("--log-interval", 1000, "--stop-update-fraction", 1)
    if interval == "updates":
        options += ("--validate-interval-updates", 130, "--save-interval-updates", 130)
    valid = train(tmp_path, *options)["valid"]
    solved = next(s for s in valid if s["valid_solved"] == 1)
    assert solved["valid_mse"] <= 1 / 600 and solved["valid_num_updates"] < 2000
    # At the end of an epoch training ends at once; in the middle of an epoch it ends after another training update.
    after = [s["valid_num_updates"] - solved["valid_num_updates"] for s in valid[valid.index(solved) + 1 :]]
    assert after == ([] if solved["valid_num_updates"] % 200 == 0 else [1])
    for name in ("last", "best"):  # hold what the user gave
        given = torch.load(tmp_path / f"checkpoint_{name}.pt", weights_only=False)["cfg"]["optimization"]
        assert given["max_update"] == 2000 and given["stop_min_lr"] == -1
    stored = validate(tmp_path / "checkpoint_last.pt")["valid"][-1]
    assert stored["valid_mse"] == pytest.approx(valid[-1]["valid_mse"], rel=1e-5)


@pytest.mark.parametrize(
    "options,message",
    [
        (("--sequence-length", "1"), "--sequence-length.*1"),
        (("--min-value", "2"), "--min-value, --max-value.*2.0 to 0.5"),
        (("--train-size", "0"), "--train-size.*0"),
        (("--valid-size", "-3"), "--valid-size.*-3"),
        (("--valid-seed", "-1"), "--valid-seed.*-1"),
        (("--stop-update-fraction", "1.5"), "--stop-update-fraction.*1.5"),
        (("--arch", "random_skip_gru", "--skip-prob", "1.5"), "--skip-prob.*1.5"),
        (("--cost-per-sample=-1e-5",), "--cost-per-sample.*-1e-05"),
        (("--hidden-size", "0"), "--hidden-size.*0"),
        (("--engine", "warp"), "--engine.*'warp'"),
        (("--criterion", "with_budget", "--base-criterion", "cross_entropy"), "--criterion: .*predicts numbers.*mse_w"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_options(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        train(tmp_path, *options)
