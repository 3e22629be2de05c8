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


def marked_steps(panel):
    """The steps under the spans of the strip, which are those of the background too."""
    background, _, strip = [
        [(path.vertices[:, 0].min(), path.vertices[:, 0].max()) for path in collection.get_paths()]
        for collection in panel.collections
    ]
    assert background == strip
    return [step for begin, end in strip for step in range(int(begin + 0.5), int(end + 0.5))]


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
    assert made.captions == ["label walk, predicted run, used 2 of 4", "label run, predicted run, used 2 of 2"]
    expected = [f"channel {number}" for number in range(1, 9)]
    assert made.names == (expected if width == 8 else ["root mean square of 9 features"])
    assert made.label == ("value" if width == 8 else "root mean square")


def test_shows_the_models_own_updates(prints, tmp_path, figures):
    """Of sequences from the whole split."""
    data = write_features(tmp_path / "data")
    options = ("--data-dir", data, "--update-bias", -1, "--max-update", 1)
    train(tmp_path / "run", *options, task="feature_classification")
    prints(main, "samples", tmp_path / "run", "--output", tmp_path / "features.png", "--num-sequences", 3)
    height, width, _ = imread(tmp_path / "features.png").shape
    assert width == 1380 and 600 < height < 900
    sample, output = run_model(tmp_path / "run/checkpoint_last.pt", SIZES["valid"])
    arrays = [array for _, split, _, array in sequences() if split == "valid"]
    for panel, index in zip(figures[0].axes, (0, 3, 6)):
        used = output.updates[index, 0, : len(arrays[index])].nonzero()[:, 0].tolist()
        assert marked_steps(panel) == used
        assert panel.get_xlim()[0] < -0.5  # or the axis would hide the first step's mark
        assert len(panel.lines) == WIDTH
        np.testing.assert_array_equal(panel.lines[1].get_ydata(), arrays[index][:, 1])
        label, predicted = LABELS[sample["target"][index]], LABELS[output.prediction[index].argmax()]
        steps = len(arrays[index])
        assert panel.get_title(loc="left") == f"label {label}, predicted {predicted}, used {len(used)} of {steps}"
