"""ucf101.sh and charades.sh, cut short, on a few features."""

import pytest
import torch

from ..command_line import ROOT, run
from ..tiny_features import write_features
from ..tiny_localization import write_localization
from .start import needs_environment, recipe

# Every recipe starts table.sh, which test_synthetic.py covers in the quick tests
pytestmark = pytest.mark.thorough


@needs_environment
def test_charades_ends_with_a_picture_and_a_table_with_the_spread_over_videos(tmp_path):
    write_localization(tmp_path / "my data", splits=("train", "valid"))
    environment = {"RUNS": str(tmp_path / "runs"), "MAX_UPDATE": "1"}
    rows = ("gru", "gru-skip-0.90", "skip-lstm-1e-3")
    process = run("bash", ROOT / "recipes/charades.sh", "my data", *rows, cwd=tmp_path, **environment)
    assert process.returncode == 0, process.stderr[-2000:]
    lines = process.stdout.splitlines()
    assert "train: 24 sequences\nvalid: 9 sequences\n" in process.stderr
    assert sorted(line.split(": mAP 0.")[0] for line in lines[:3]) == [f"{row} seed 1, update 1" for row in rows]
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    assert table[0][-5:-1] == ["mAP", "samples used ± over sequences", "FLOPs", "runs"]
    assert [row[:4] for row in table[2:]] == [
        ["Skip LSTM, lambda=1e-3", "8.32%", "41.9 ± 11.3", "6.41e11"],
        ["GRU", "8.70%", "172.9 ± 47.4", "2.65e12"],
        ["GRU (p_skip = 0.90)", "7.09%", "17.3 ± 6.3", "2.65e11"],
    ]
    updates, flops = table[3][5].split(" ± ")[0], table[3][6]
    assert float(flops) == pytest.approx(float(updates) * 1.53e10, rel=0.01)
    assert process.stderr.count("warning") == 0 and (tmp_path / "runs/charades/mAP.png").stat().st_size > 10000
    cfg = torch.load(tmp_path / "runs/charades/gru/seed1/checkpoint_best.pt", weights_only=False)["cfg"]
    assert (cfg["model"]["hidden_size"], cfg["model"]["num_layers"]) == (256, 2)
    assert cfg["task"]["frame_rate"] == 6 and cfg["task"]["eval_points"] == 100
    assert cfg["optimization"]["lr"] == [1e-4] and cfg["dataset"]["batch_size"] == 256


@needs_environment
def test_ucf101_reads_250_frames(tmp_path):
    write_features(tmp_path / "data")
    environment = {"RUNS": str(tmp_path / "runs"), "MAX_UPDATE": "1"}
    process = recipe("ucf101.sh", tmp_path / "data", "skip-gru-1e-4", **environment)
    assert process.returncode == 0, process.stderr[-2000:]
    (row,) = [line for line in process.stdout.splitlines() if line.startswith("| Skip")]
    assert row.startswith("| Skip GRU, lambda=1e-4 | 0.793 | 23.7 | 9.02e10 | 0.") and "warning" not in process.stderr
    assert (tmp_path / "runs/ucf101/accuracy.png").stat().st_size > 10000
    cfg = torch.load(tmp_path / "runs/ucf101/skip-gru-1e-4/seed1/checkpoint_best.pt", weights_only=False)["cfg"]
    assert (cfg["model"]["hidden_size"], cfg["model"]["num_layers"]) == (512, 2)
    assert (cfg["task"]["sequence_length"], cfg["task"]["padding"]) == (250, "data")
    assert cfg["task"]["encoder_flops"] == 3.8e9 and cfg["optimization"]["lr"] == [1e-4]


@pytest.mark.parametrize(
    "name, write, row",
    [
        ("charades", write_localization, "| Skip GRU, lambda=1e-3 | 8.68% |"),
        ("ucf101", write_features, "| Skip GRU, lambda=1e-4, sequence_length 50 | - |"),
    ],
)
@needs_environment
def test_videos_quick(tmp_path, name, write, row):
    write(tmp_path / "data")
    process = recipe(f"{name}.sh", tmp_path / "data", "--quick", RUNS=str(tmp_path / "runs"), MAX_UPDATE="2")
    assert process.returncode == 0, process.stderr[-2000:]
    assert row in process.stdout
    pictures = [path.name for path in (tmp_path / "runs" / f"{name}-quick").glob("**/*.png")]
    assert len(pictures) == 2 and "samples.png" in pictures
