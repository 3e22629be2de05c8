"""Half precision, mixed precision and accumulated batches on CPU, through fairseq-train."""

import math

import pytest
import torch

from .command_line import train, validate
from .compare import assert_close
from .ranks import run_ranks
from .selection import quick_of

FP16 = ["--fp16"]
MODES = {
    "fp16": FP16,
    "memory-efficient-fp16": ["--memory-efficient-fp16"],
    "bf16": ["--bf16"],
    "memory-efficient-bf16": ["--memory-efficient-bf16"],
    "amp": ["--amp"],
    "update-freq": ["--update-freq", 2],
}
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
SMALL = ["--hidden-size", 4, "--lr", 1e-2, "--valid-size", 16]


def assert_finite(logs):
    assert logs["train_inner"] and logs["valid"]
    for lines in logs.values():
        for line in lines:
            assert all(math.isfinite(value) for value in line.values()), line


@pytest.mark.parametrize("mode", quick_of(MODES, "fp16", "bf16", "update-freq"))
def test_learns(tmp_path, mode):
    options = [*SMALL, "--hidden-size", 16, "--batch-size", 32, "--train-size", 256, "--max-update", 40]
    options += ["--cost-per-sample", 1e-3, "--log-interval", 10]
    logs = train(tmp_path, *options, *MODES[mode])
    assert_finite(logs)
    losses = [line["loss"] for line in logs["train_inner"]]
    assert losses[-1] < 0.9 * losses[0]
    model = torch.load(tmp_path / "checkpoint_last.pt")["model"]
    dtype = DTYPES.get(mode.removeprefix("memory-efficient-"))
    if dtype is not None:  # checkpoints hold float32, but with the values of a half model
        assert all(torch.equal(value, value.to(dtype).float()) for value in model.values())


@pytest.mark.parametrize(
    "arch, mode",
    [
        ("skip_lstm", "fp16"),
        ("skip_gru", "bf16"),
        pytest.param("skip_lstm", "bf16", marks=pytest.mark.thorough),
        pytest.param("skip_gru", "fp16", marks=pytest.mark.thorough),
    ],
)
def test_long_sequences_stay_finite_and_are_counted_in_float32(tmp_path, mode, arch):
    """Budgets exceed float16's range, and counts exceed the integers that bfloat16 can represent."""
    options = ["--sequence-length", 784, "--arch", arch, "--update-bias", 20, "--batch-size", 4, "--train-size", 8]
    options += ["--budget", "l2", "--target-updates", 1, "--cost-per-sample", 1, "--max-update", 2, "--valid-size", 4]
    logs = train(tmp_path, *SMALL, *options, *MODES[mode])
    assert_finite(logs)
    assert logs["valid"][0]["valid_updates"] == 784
    assert logs["train_inner"][0]["budget_loss"] == pytest.approx(783**2)


@pytest.mark.parametrize("mode", ["fp16", "memory-efficient-fp16"])
def test_overflow_lowers_the_loss_scale_and_skips_the_update(tmp_path, mode):
    options = [*SMALL, "--fp16-init-scale", 2**26, "--max-update", 2, "--train-size", 256]
    logs = train(tmp_path, *options, *MODES[mode])
    assert_finite(logs)
    first = logs["train_inner"][0]
    assert first["loss_scale"] < 2**26 and first["num_updates"] == 1
    assert first["update"] > 1 / 16  # some of the epoch's 16 batches overflowed
    assert torch.load(tmp_path / "checkpoint_last.pt")["last_optimizer_state"]["loss_scale"] < 2**26


def test_minimum_loss_scale_is_an_error(tmp_path):
    options = [*SMALL, "--fp16-init-scale", 2**26, "--min-loss-scale", 2**25, "--max-update", 2]
    with pytest.raises(FloatingPointError, match="Minimum loss scale reached"):
        train(tmp_path, *options, *FP16)


def halves(folder):
    return {
        (mode, backend): train(folder / f"{mode}-{backend}", *SMALL, *MODES[mode], "--ddp-backend", backend)
        for mode in ("fp16", "bf16")
        for backend in ("pytorch_ddp", "legacy_ddp")
    }


@pytest.mark.thorough
def test_two_processes(tmp_path):
    logs, others = run_ranks(halves, tmp_path)
    assert len(logs) == 4
    for key in logs:
        assert_finite(logs[key])
        assert logs[key]["valid"][-1]["valid_loss"] == others[key]["valid"][-1]["valid_loss"]
        assert logs[key]["train_inner"][0]["bsz"] == 32


@pytest.mark.parametrize("mode", ["fp16", "memory-efficient-fp16"])
def test_resumes(tmp_path, mode):
    """The results agree up to rounding: a checkpoint holds the half model, not fairseq's float32 copy of it."""
    options = [*SMALL, *MODES[mode], "--train-size", 128, "--log-interval", 10]
    train(tmp_path / "through", *options, "--max-update", 4)
    for updates in (2, 4):
        train(tmp_path / "resumed", *options, "--max-update", updates)
    through, resumed = (torch.load(tmp_path / name / "checkpoint_last.pt")["model"] for name in ("through", "resumed"))
    dtype = DTYPES[mode.removeprefix("memory-efficient-")]
    for key in through:
        assert_close(resumed[key].to(dtype), through[key].to(dtype), key)


def test_validate_in_half_precision(tmp_path):
    train(tmp_path, *SMALL, "--max-update", 1)
    single, half = (validate(tmp_path / "checkpoint_last.pt", *flags)["valid"][0] for flags in ((), FP16))
    assert half["valid_mse"] == pytest.approx(single["valid_mse"], rel=1e-2)
    assert half["valid_mse"] != single["valid_mse"]
