"""``skiprnn-plot samples``: the figure's data, the file, and what can't be drawn."""

import os
import sys

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from skiprnn_plugin.cli.plot import main
from skiprnn_plugin.cli.plot.panels import Samples, draw

KNOWN = Samples(
    times=np.arange(1, 6),
    time_label="time step",
    values=np.array([[0.1, -0.2, 0.3, -0.4, 0.5], [0.5, 0.4, 0.3, 0.2, 0.1]]),
    value_label="value",
    used=np.array([[1, 0, 1, 0, 0], [1, 1, 1, 1, 1]], dtype=bool),
    outcomes=["target -0.300, predicted -0.250", "target 0.500, predicted 0.500"],
    marked=np.array([[1, 0, 0, 1, 0], [0, 1, 0, 0, 1]], dtype=bool),
    marked_label="marked: to be added up",
)
WAVE = KNOWN._replace(
    times=np.array([0.0, 0.5, 1.0, 1.5, 2.0]),
    time_label="time (ms)",
    value_label="amplitude",
    outcomes=["class 0, predicted 1", "class 1, predicted 1"],
    marked=None,
)


def points(panel, label):
    """Times and values of the points with a label in the legend."""
    (line,) = [line for line in panel.lines if line.get_label() == label]
    return [(float(step), float(value)) for step, value in zip(line.get_xdata(), line.get_ydata())]


def run_model(checkpoint, count=3):
    """The first held-out sequences, and what the model makes of them."""
    from fairseq import checkpoint_utils

    models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)])
    task.load_dataset("valid")
    sample = task.dataset("valid").collater([task.dataset("valid")[i] for i in range(count)])
    with torch.no_grad():
        return sample, models[0].eval()(**sample["net_input"])


def test_draws_what_was_used(look):
    first, second = draw(KNOWN).axes
    assert points(first, "used") == [(1, 0.1), (3, 0.3)]
    assert points(first, "skipped") == [(2, -0.2), (4, -0.4), (5, 0.5)]
    assert points(first, "marked: to be added up") == [(1, 0.1), (4, -0.4)]
    assert len(points(second, "used")) == 5 and points(second, "skipped") == []
    titles = [panel.get_title(loc="left") for panel in (first, second)]
    assert titles == ["target -0.300, predicted -0.250, used 2 of 5", "target 0.500, predicted 0.500, used 5 of 5"]


def test_draws_a_wave_over_time(look):
    figure = draw(WAVE)
    first, second = figure.axes
    assert points(first, "used") == [(0.0, 0.1), (1.0, 0.3)]
    assert points(first, "skipped") == [(0.5, -0.2), (1.5, -0.4), (2.0, 0.5)]
    assert (0.0, 0.5, 1.0, 1.5, 2.0) in [tuple(line.get_xdata()) for line in first.lines]  # the wave itself
    titles = [panel.get_title(loc="left") for panel in (first, second)]
    assert titles == ["class 0, predicted 1, used 2 of 5", "class 1, predicted 1, used 5 of 5"]
    assert [second.get_xlabel(), figure.get_supylabel()] == ["time (ms)", "amplitude"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["used", "skipped"]


def test_used_is_filled_and_skipped_is_hollow_and_paler(look):
    lines = {line.get_label(): line for line in draw(KNOWN).axes[0].lines}
    used, skipped, ring = (lines[label] for label in ("used", "skipped", "marked: to be added up"))
    assert to_rgb(used.get_markerfacecolor()) == to_rgb(used.get_markeredgecolor()) == to_rgb("#0072b2")
    assert to_rgb(skipped.get_markerfacecolor()) == (1, 1, 1)
    red, green, blue = to_rgb(skipped.get_markeredgecolor())
    assert red == green == blue > max(to_rgb("#0072b2")) - 0.01  # paler than what is used
    assert ring.get_markersize() > used.get_markersize() > skipped.get_markersize()


def test_one_legend_names_all(look):
    figure = draw(KNOWN)
    legends = [*figure.legends, *(panel.get_legend() for panel in figure.axes if panel.get_legend())]
    assert [[text.get_text() for text in legend.get_texts()] for legend in legends] == [
        ["used", "skipped", "marked: to be added up"]
    ]


@pytest.mark.parametrize("name", ["seed1", "other"])
def test_shows_the_models_own_updates(prints, tiny, tmp_path, figures, name):
    output = tmp_path / "three.png"
    printed = prints(main, "samples", tiny[name].save_dir, "--output", output, "--num-sequences", 3)
    assert printed == ""
    height, width, _ = imread(output).shape
    assert width == 1380 and 500 < height < 900
    assert [path.name for path in tmp_path.iterdir()] == ["three.png"]

    sample, output = run_model(tiny[name].checkpoint)
    (figure,) = figures
    assert len(figure.axes) == 3
    for panel, x, u, target, y in zip(
        figure.axes, sample["net_input"]["x"], output.updates[:, 0], sample["target"], output.prediction
    ):
        assert [step for step, _ in points(panel, "used")] == (u.nonzero()[:, 0] + 1).tolist()
        assert [step for step, _ in points(panel, "skipped")] == ((1 - u).nonzero()[:, 0] + 1).tolist()
        assert sum(value for _, value in points(panel, "marked: to be added up")) == pytest.approx(float(target))
        assert [value for _, value in points(panel, "marked: to be added up")] == x[x[:, 1] == 1, 0].tolist()
        expected = f"target {target:.3f}, predicted {y[0]:.3f}, used {int(u.sum())} of 12"
        assert panel.get_title(loc="left") == expected
    assert 0 < output.updates.mean() < 1  # so that there is something to tell apart


def test_shows_the_waves_of_the_other_task(prints, tiny_frequency, tmp_path, figures):
    checkpoint = tiny_frequency["0.5"].checkpoint
    prints(main, "samples", checkpoint, "--output", tmp_path / "waves.png", "--num-sequences", 3)

    sample, output = run_model(checkpoint)
    (figure,) = figures
    for panel, x, u, target, y in zip(
        figure.axes, sample["net_input"]["x"], output.updates[:, 0], sample["target"], output.prediction
    ):
        used = [(k / 2, x[k, 0].item()) for k in range(24) if u[k]]  # 24 steps of 0.5 ms
        assert points(panel, "used") == used
        assert len(points(panel, "skipped")) == 24 - len(used)
        expected = f"class {int(target)}, predicted {int(y.argmax())}, used {len(used)} of 24"
        assert panel.get_title(loc="left") == expected
    assert 0 < output.updates.mean() < 1  # so that there is something to tell apart
    assert len(figure.axes) == 3 and (tmp_path / "waves.png").stat().st_size > 10000


@pytest.mark.parametrize("suffix, starts", [(".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_other_formats(prints, tiny, tmp_path, suffix, starts):
    output = tmp_path / f"samples{suffix}"
    prints(main, "samples", tiny["seed1"].checkpoint, "--output", output, "--num-sequences", 1, "--split", "test")
    assert output.read_bytes().startswith(starts)


@pytest.mark.parametrize(
    "options, named",
    [
        (["--num-sequences", 0], "--num-sequences: expected 1 to 50, got 0"),
        (["--num-sequences", 51], "got 51"),
        (["--num-sequences", 40], "--num-sequences: split valid has 36, got 40"),
        (["--split", "train"], "--split train"),
        (["--output", "{folder}/samples.gif"], "samples.gif: expected a name that ends in .png or .pdf or .svg"),
        (["--output", "{folder}/samples"], "samples: expected a name that ends in"),
        (["--output", "{folder}/none/samples.png"], "none/samples.png: there is no folder"),
        (["--output", "{folder}/taken.png"], "taken.png: can't be written (Is a directory)"),
        (["--user-dir", "/nowhere/plugin"], "--user-dir /nowhere/plugin"),
    ],
)
def test_names_the_option(fails, tiny, tmp_path, options, named):
    (tmp_path / "taken.png").mkdir()
    options = [str(option).format(folder=tmp_path) for option in options]
    message = fails(main, "samples", tiny["seed1"].save_dir, "--output", tmp_path / "samples.png", *options)
    assert named in message
    assert [path.name for path in tmp_path.iterdir()] == ["taken.png"]


@pytest.mark.parametrize("what", ["absent.pt", "train.log", "truncated.pt"])
def test_names_the_checkpoint(fails, tiny, tmp_path, what):
    (tmp_path / "train.log").write_text(tiny["seed1"].log.read_text())
    (tmp_path / "truncated.pt").write_bytes(tiny["seed1"].checkpoint.read_bytes()[:20000])
    output = tmp_path / "samples.png"
    assert f"{tmp_path / what}: " in fails(main, "samples", tmp_path / what, "--output", output)
    assert not output.exists()


def test_a_disk_that_fills_up_leaves_the_old_figure(fails, tiny, tmp_path, monkeypatch):
    output = tmp_path / "samples.png"
    output.write_text("the old figure")

    def fill_up(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fill_up)
    assert "No space left" in fails(main, "samples", tiny["seed1"].checkpoint, "--output", output)
    assert output.read_text() == "the old figure"
    assert list(tmp_path.iterdir()) == [output]


def test_without_matplotlib(fails, tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = fails(main, "samples", tiny["seed1"].checkpoint, "--output", tmp_path / "samples.png")
    assert "pip install 'skiprnn-plugin[plot]'" in message
