"""A user's own tasks are drawn and predicted as they say, though no tool knows them by name."""

import json

import numpy as np
import pytest
from matplotlib.image import imread

from skiprnn_plugin.cli.plot import main as plot
from skiprnn_plugin.cli.predict import main as predict

from ..command_line import TASKS, train
from ..own_tasks import presented

CRITERIONS = {
    "own_temperatures": "mse_with_budget",
    "own_curves": "cross_entropy_with_budget",
    "own_pictures": "cross_entropy_with_budget",
    "own_letters": "cross_entropy_with_budget",
}


@pytest.fixture(scope="module")
def save_dirs(tmp_path_factory):
    """By task, runs of a few updates."""
    folder = tmp_path_factory.mktemp("own")
    with pytest.MonkeyPatch.context() as patch:
        for task, criterion in CRITERIONS.items():
            patch.setitem(TASKS, task, ["--criterion", criterion])
            options = ("--update-bias", -1, "--log-file", folder / f"{task}.log")
            train(folder / task, *options, task=task)
    return {task: folder / task for task in CRITERIONS}


@pytest.fixture
def draw(prints, tmp_path, figures):
    """``draw(save_dir, *options)``: the figure of a run's samples."""

    def call(save_dir, *options):
        prints(plot, "samples", save_dir, "--output", tmp_path / "samples.png", *options)
        assert imread(tmp_path / "samples.png").shape[1] == 1380
        return figures[-1]

    return call


def titles(figure):
    return [(panel.get_title(loc="left") or panel.get_title()).replace("\n", " ") for panel in figure.axes]


def held_out(task):
    random = np.random.default_rng(len("valid"))
    return [task.make_item(None, random) for _ in range(presented.NUM_SEQUENCES)]


def test_points(save_dirs, draw):
    """With the task's own axes and rings, nothing behind a sequence's end, and sequences from the whole split."""
    figure = draw(save_dirs["own_temperatures"], "--num-sequences", 2)
    chosen = [held_out(presented.OwnTemperaturesTask)[index] for index in (0, -1)]
    assert figure.axes[-1].get_xlabel() == "hours"
    for panel, title, (x, target) in zip(figure.axes, titles(figure), chosen):
        assert figure.get_supylabel() == "temperature"
        lines = {line.get_label(): line for line in panel.lines}
        marked = x[:, 1] > 0
        np.testing.assert_allclose(lines["sunny"].get_xdata(), 0.5 * marked.nonzero()[0])
        np.testing.assert_allclose(lines["sunny"].get_ydata(), x[marked, 0], rtol=1e-6)
        drawn = sum(np.isfinite(lines[label].get_ydata()).sum() for label in ("used", "skipped"))
        assert drawn == len(x)
        assert title.startswith(f"target {target:.3f}, predicted ")
        assert title.endswith(f"used {len(lines['used'].get_xdata())} of {len(x)}")


def test_curves_are_the_default(save_dirs, draw):
    figure = draw(save_dirs["own_curves"], "--num-sequences", 3)
    assert [len(panel.lines) for panel in figure.axes] == [3, 3, 3]
    assert all(title.startswith("class ") for title in titles(figure))


def test_images(save_dirs, draw):
    figure = draw(save_dirs["own_pictures"], "--num-sequences", 1)
    panel = figure.axes[0]
    assert panel.images[0].get_array().shape == (2, 3, 3)
    _, target = held_out(presented.OwnPicturesTask)[0]
    assert titles(figure)[0].startswith(f"label {presented.OwnPicturesTask.class_names[target]}, predicted ")


def test_text_without_a_dictionary(save_dirs, prints, tmp_path):
    prints(plot, "samples", save_dirs["own_letters"], "--output", tmp_path / "letters.html", "--num-sequences", 1)
    page = (tmp_path / "letters.html").read_text()
    token_ids, target = held_out(presented.OwnLettersTask)[0]
    assert f"label {presented.OwnLettersTask.class_names[target]}, predicted " in page
    assert "(probability 0." in page and f" of {len(token_ids)}</h2>" in page


def test_solved(save_dirs, prints, figures, tmp_path):
    prints(plot, "tradeoff", save_dirs["own_temperatures"], "--output", tmp_path / "tradeoff.png")
    (solved,) = [line for line in figures[-1].axes[0].lines if line.get_label() == "solved"]
    assert list(solved.get_ydata()) == [0.25, 0.25]


def test_predictions(save_dirs, prints, tmp_path):
    """Inputs go through the task's ``encode`` and ``fit_token_ids``."""
    x, _ = held_out(presented.OwnTemperaturesTask)[0]
    np.savetxt(tmp_path / "hours.csv", 10 * x, delimiter=",")
    (row,) = json.loads(prints(predict, save_dirs["own_temperatures"], tmp_path / "hours.csv", "--json"))
    assert row["steps"] == len(x) and len(row["prediction"]) == 1

    np.save(tmp_path / "image.npy", np.zeros((2, 3), dtype=np.uint8))
    (row,) = json.loads(prints(predict, save_dirs["own_pictures"], tmp_path / "image.npy", "--json"))
    assert row["steps"] == 6 and set(row["probabilities"]) == {"dark", "bright"}

    np.save(tmp_path / "ids.npy", np.arange(7) % 4)
    rows = json.loads(prints(predict, save_dirs["own_letters"], tmp_path / "ids.npy", "--text", "abcda", "--json"))
    assert [row["steps"] for row in rows] == [5, 4]


def test_a_kind_that_does_not_exist(save_dirs, fails, monkeypatch, tmp_path):
    monkeypatch.setattr(presented.OwnCurvesTask, "drawing", presented.Drawing("sculptures"))
    message = fails(plot, "samples", save_dirs["own_curves"], "--output", tmp_path / "samples.png")
    assert (
        "task own_curves: expected drawing.kind to be points or curves or images or text, got 'sculptures'" in message
    )
