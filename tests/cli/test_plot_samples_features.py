"""``skiprnn-plot samples`` of features: what is drawn, and that it is what the model used."""

import numpy as np
import pytest
from matplotlib.image import imread

from skiprnn_plugin.cli.plot import features, main
from skiprnn_plugin.runs.samples import Read
from skiprnn_plugin.tasks.presentation import Presented

from ..command_line import train
from ..tiny_features import LABELS, SIZES, WIDTH, sequences, write_features
from .test_plot_samples import run_model

TASK = Presented()
TASK.predicts, TASK.per_step, TASK.class_names = "classes", False, ["walk", "run"]


@pytest.mark.parametrize("width", [8, 9])
def test_curves(width):
    """One for each feature, or their root mean square where they are many; nothing of the padding."""
    x = np.stack([np.full((4, width), 3.0), np.full((4, width), -5.0)])
    used = np.array([[1, 0, 1, 0], [1, 1, 0, 0]], dtype=bool)
    read = Read(x, used, np.array([4, 2]), np.array([0, 1]), np.array([[0.1, 0.9], [0.2, 0.8]]))
    made = features.make(TASK, read)
    assert [curves.shape for curves in made.curves] == ([(4, 8), (2, 8)] if width == 8 else [(4, 1), (2, 1)])
    np.testing.assert_allclose(made.curves[1], -5 if width == 8 else 5)
    assert [used.tolist() for used in made.used] == [[True, False, True, False], [True, True]]
    assert made.titles == ["label walk, predicted run, used 2 of 4", "label run, predicted run, used 2 of 2"]
    assert made.label == ("features" if width == 8 else "root mean square\nof 9 features")


def test_shows_the_models_own_updates(prints, tmp_path, figures):
    """Of sequences from the whole split."""
    data = write_features(tmp_path / "data")
    options = ("--data-dir", data, "--update-bias", -1, "--max-update", 1)
    train(tmp_path / "run", *options, task="feature_classification")
    prints(main, "samples", tmp_path / "run", "--output", tmp_path / "features.png", "--num-sequences", 3)
    height, width, _ = imread(tmp_path / "features.png").shape
    assert width == 900 and 500 < height < 600
    sample, output = run_model(tmp_path / "run/checkpoint_last.pt", SIZES["valid"])
    arrays = [array for _, split, _, array in sequences() if split == "valid"]
    for panel, index in zip(figures[0].axes, (0, 3, 6)):
        used = output.updates[index, 0, : len(arrays[index])].nonzero()[:, 0].tolist()
        (marks,) = panel.collections
        assert marks.get_positions() == used
        assert panel.get_xlim()[0] < 0  # or the axis would hide the first step's mark
        assert len(panel.lines) == WIDTH
        np.testing.assert_array_equal(panel.lines[1].get_ydata(), arrays[index][:, 1])
        label, predicted = LABELS[sample["target"][index]], LABELS[output.prediction[index].argmax()]
        steps = len(arrays[index])
        assert panel.get_title(loc="left") == f"label {label}, predicted {predicted}, used {len(used)} of {steps}"
