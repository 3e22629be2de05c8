"""smartwatch.sh, cut short, on noise."""

import numpy as np
import pytest
import torch

from ..command_line import ROOT, run
from .start import needs_environment

# Every recipe starts table.sh, which test_synthetic.py covers in the quick tests
pytestmark = pytest.mark.thorough


@needs_environment
def test_smartwatch_prepares_the_recordings_once_and_ends_with_pictures(tmp_path):
    rng = np.random.default_rng(0)
    numbers = np.arange(20)
    arrays = {"values": rng.normal(size=(60, 6)), "lengths": np.full(20, 3), "labels": numbers % 2, "subject": numbers}
    np.savez(tmp_path / "my watch.npz", **arrays)
    environment = {"RUNS": str(tmp_path / "runs"), "MAX_UPDATE": "1", "LAMBDAS": "1e-4"}

    def go(status=0):
        process = run("bash", ROOT / "recipes/smartwatch.sh", "--quick", "my watch.npz", cwd=tmp_path, **environment)
        assert process.returncode == status, process.stderr[-2000:]
        if status:
            return process.stderr
        return process.stdout.splitlines()

    lines = go()
    assert sorted(line.split(": accuracy")[0] for line in lines if ": accuracy" in line) == [
        "full_gru seed 1, update 1", "skip_gru-1e-4 seed 1, update 1"
    ]  # fmt: skip
    table = [line for line in lines if line.startswith("|")]
    assert [line.split("|")[1].strip() for line in table] == ["model", "---", "GRU, every sample", "Skip GRU, λ=1e-4"]
    folder = tmp_path / "runs/smartwatch-quick"
    for picture in (folder / "tradeoff.png", folder / "full_gru/seed1/samples.png"):
        assert picture.stat().st_size > 10000
    cfg = torch.load(folder / "skip_gru-1e-4/seed1/checkpoint_best.pt", weights_only=False)["cfg"]
    assert cfg["task"]["data_dir"] == str(tmp_path / "runs/smartwatch-data") and cfg["task"]["normalize"]
    assert cfg["criterion"]["cost_per_sample"] == 1e-4 and cfg["model"]["hidden_size"] == 64
    made = (tmp_path / "runs/smartwatch-data").stat()
    assert [line for line in go() if line.startswith("|")] == table
    assert (tmp_path / "runs/smartwatch-data").stat() == made
    (tmp_path / "my watch.npz").write_bytes(b"")
    assert go(2).startswith(f"error: FILE.npz: expected {tmp_path}/my watch.npz (")
