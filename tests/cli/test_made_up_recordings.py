"""The commands that the documentation names for its picture of sensor recordings."""

import sys

import numpy as np

from skiprnn_plugin.cli.plot import main as plot
from skiprnn_plugin.cli.train import main as train

from ..command_line import ROOT, run


def test_picture_of_a_model_of_made_up_recordings(prints, figures, tmp_path):
    process = run(sys.executable, "-m", "tests.made_up_recordings", tmp_path / "recordings.npz", 15, cwd=ROOT)
    assert process.returncode == 0, process.stderr
    with np.load(tmp_path / "recordings.npz") as file:
        assert sorted(set(file["labels"])) == ["x", "y", "z"] and file["arr_14"].shape[1] == 3
    prints(train, tmp_path / "recordings.npz", "--save-dir", tmp_path / "run", "--max-updates", 2, "--hidden-size", 4)
    options = ("--split", "test", "--num-sequences", 3, "--output", tmp_path / "recording.png")
    prints(plot, "samples", tmp_path / "run/checkpoint_best.pt", *options)
    assert len(figures[-1].axes) == 3
