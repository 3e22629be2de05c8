"""sweep.sh, cut short, of the paper's tasks and of one's own."""

import pytest
import torch

from .start import needs_environment, recipe

# Every recipe starts table.sh, which test_synthetic.py covers in the quick tests
pytestmark = pytest.mark.thorough


@needs_environment
def test_sweep_quick_ends_with_a_picture_and_goes_on_with_more_points(tmp_path):
    flags = ["--", "--valid-size", "40"]

    def go(**environment):
        environment = {"RUNS": str(tmp_path), "MAX_UPDATE": "1", "ARCHS": "skip_gru", "LAMBDAS": "1e-4", **environment}
        process = recipe("sweep.sh", "--quick", *flags, **environment)
        assert process.returncode == 0, process.stderr[-2000:]
        lines = process.stdout.splitlines()
        trained = [line.split(",")[0] for line in lines if "update 1: mse" in line]
        return trained, [line.split("|")[1].strip() for line in lines if line.startswith("|")][2:]

    assert go(BASELINES="") == (["skip_gru-1e-4 seed 1"], ["Skip GRU, λ=1e-4"])
    both = ["Skip GRU, λ=1e-4", "GRU, random skips, p=0.3"]
    assert go(BASELINES="random", SKIP_PROBS="0.3") == (["random_skip_gru-0.3 seed 1"], both)
    folder = tmp_path / "sweep-adding-quick"
    assert (folder / "tradeoff.png").stat().st_size > 10000
    cfg = torch.load(folder / "skip_gru-1e-4/seed1/checkpoint_last.pt", weights_only=False)["cfg"]
    assert cfg["criterion"]["cost_per_sample"] == 1e-4 and cfg["task"]["sequence_length"] == 30
    assert cfg["model"]["hidden_size"] == 64 and cfg["model"]["gru_reset"] == "before"
    assert cfg["task"]["valid_size"] == 40
    flags[-1] = "50"
    others = {"MAX_UPDATE": "1", "ARCHS": "skip_gru", "LAMBDAS": "1e-4"}
    other = recipe("sweep.sh", "--quick", *flags, RUNS=str(tmp_path), **others)
    message = f"'--valid-size 50' in {folder}/skip_gru-1e-4/seed1, got one with '--valid-size 40'"
    assert other.returncode == 2 and f"error: RUNS: expected a run with the flags {message}" in other.stderr


@needs_environment
def test_sweep_of_a_task_of_ones_own(tmp_path):
    flags = """--user-dir user_dir_examples/own_plugin --task temporal_order --train-size 64 --valid-size 36
        --criterion label_smoothed_cross_entropy_with_budget --hidden-size 8""".split()
    environment = {"RUNS": str(tmp_path), "MAX_UPDATE": "1", "SEEDS": "2", "LAMBDAS": "0.5", "ARCHS": "skip_lstm"}
    process = recipe("sweep.sh", "own", "--", *flags, METRIC="top2_accuracy", **environment)
    assert process.returncode == 0, process.stderr[-2000:]
    assert "| model | samples used | top2_accuracy | runs |" in process.stdout
    assert "| Skip LSTM, λ=0.5 | " in process.stdout and "LSTM, every sample" not in process.stdout
    assert (tmp_path / "sweep-own/tradeoff.png").stat().st_size > 10000
