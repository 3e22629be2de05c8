"""``skiprnn-plot frames``: which frames are drawn, how, and that the used ones are the model's."""

import numpy as np
import pytest
from matplotlib.image import imread

from skiprnn_plugin.cli.plot import main
from skiprnn_plugin.cli.plot.elements import get_colors
from skiprnn_plugin.cli.plot.frames import BORDER, MARGIN, assemble, draw
from skiprnn_plugin.hub import from_pretrained
from skiprnn_plugin.runs.frames import SIDE, Sheet, shrink

from ..tiny_video_runs import FRAME_RATE, LENGTH, VIDEOS
from ..tiny_videos import HEIGHT, WIDTH, image

EDGE = MARGIN + BORDER
BLUE, WHITE = [0, 114, 178], [255, 255, 255]


def test_used_frames_are_framed_and_skipped_ones_pale(look):
    frames = np.full((27, 4, 6, 3), (10, 20, 60), dtype=np.uint8)
    used = np.arange(27) == 26
    mosaic = assemble(Sheet(frames, used, np.arange(27) / 25, ""), 25, get_colors().used)
    height, width = 4 + 2 * EDGE, 6 + 2 * EDGE
    assert mosaic.shape == (2 * height, 25 * width, 3)
    cells = mosaic.reshape(2, height, 25, width, 3).swapaxes(1, 2)
    skipped, blue, empty = cells[0, 3], cells[1, 1], cells[1, 2]
    assert (skipped[EDGE:-EDGE, EDGE:-EDGE] == (255 + 30) // 2).all()
    assert skipped[MARGIN, MARGIN].tolist() == WHITE and (empty == 255).all()
    assert (blue[EDGE:-EDGE, EDGE:-EDGE] == (10, 20, 60)).all()
    assert blue[MARGIN, MARGIN].tolist() == blue[-MARGIN - 1, EDGE].tolist() == BLUE
    assert blue[MARGIN - 1, EDGE].tolist() == WHITE


@pytest.mark.parametrize("count, times", [(50, ["100 s", "102 s", "104 s"]), (1, ["100 s"])])
def test_times_are_at_the_rows_and_all_fits(look, count, times):
    frames = np.zeros((count, 54, 96, 3), dtype=np.uint8)
    figure = draw(Sheet(frames, np.ones(count, dtype=bool), 100 + np.arange(count) / 10, ""), "title")
    (panel,) = figure.axes
    assert [label.get_text() for label in panel.get_yticklabels()] == times
    assert figure.get_suptitle() == "title"
    figure.draw_without_rendering()
    drawn, legend = panel.get_tightbbox(), figure.legends[0].get_window_extent()
    assert legend.y0 >= 0 and drawn.y0 >= legend.y1 and drawn.y1 <= figure.bbox.y1 and drawn.x0 >= 0
    assert panel.get_window_extent().width > 0.9 * figure.bbox.width


@pytest.mark.parametrize("shape, expected", [((48, 64), (72, 96)), ((64, 48), (96, 72)), ((1, 1000), (1, 96))])
def test_small_frames(shape, expected):
    frames = [np.full((*shape, 3), value, dtype=np.uint8) for value in (7, 200)]
    small = shrink(iter(frames))
    assert small.shape == (2, *expected, 3) and max(expected) == SIDE
    assert (small[0] == 7).all() and (small[1] == 200).all()


@pytest.mark.parametrize(
    "index, crop, most, drawn, more",
    [
        (0, "head", 250, range(3), " (and {} of 2 steps of padding)"),
        pytest.param(1, "head", 250, range(5), "", marks=pytest.mark.thorough),
        pytest.param(1, "tail", 250, range(2, 7), "", marks=pytest.mark.thorough),
        (1, "tail", 3, range(2, 5), ", the first 3 shown"),
    ],
    ids=["filled up", "head", "tail", "the first ones"],
)
def test_shows_the_models_own_updates(prints, video_runs, figures, tmp_path, index, crop, most, drawn, more):
    output, moved = tmp_path / "frames.png", ("--set", f"crop={crop}")
    options = ("--weights", video_runs.weights, "--num-frames", most, "--output", output, *moved)
    prints(main, "frames", video_runs.classification, video_runs.videos[index], *options)
    assert imread(output).shape[1] == 1380

    hub = from_pretrained(video_runs.classification, crop=crop)
    (prediction,) = hub.run([hub.encode(np.load(video_runs.features[index]))])
    name, count = video_runs.videos[index].name, min([*VIDEOS.values()][index], LENGTH)
    used = prediction.used[:count]
    (panel,) = figures[0].axes
    title = f"{name}: {prediction.label} {prediction.values.max():.2f}, used {used.sum()} of {count} frames"
    assert figures[0].get_suptitle().replace("\n", " ") == title + more.format(prediction.used[count:].sum())
    assert panel.get_yticklabels()[0].get_text() == f"{drawn.start / FRAME_RATE:g} s"
    frames = shrink(image(20 * index + number) for number in drawn)
    assert frames.shape[1:3] == (SIDE * HEIGHT // WIDTH, SIDE)
    expected = assemble(Sheet(frames, used[: len(drawn)], None, ""), 20, (0, 114 / 255, 178 / 255))
    np.testing.assert_array_equal(panel.images[0].get_array(), expected)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["x.npy"], "x.npy: expected a video, such as .avi or .mp4"),
        (["absent.mp4"], "absent.mp4: no such file"),
        (["x.mp4", "--num-frames", 0], "--num-frames: expected 1 to 2500, got 0"),
        (["x.mp4", "--output", "x.txt"], "--output x.txt: expected a name that ends in .png or .pdf or .svg"),
        (
            ["x.mp4"],
            "--weights: expected the file that skiprnn-prepare video was given, which x.mp4 needs as a video, got none",
        ),
    ],
    ids=str,
)
def test_names_what_is_wrong(fails, video_runs, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.mp4").write_text("")
    assert fails(main, "frames", video_runs.classification, *arguments) == f"skiprnn-plot: error: {message}\n"
    assert not list(tmp_path.glob("*.png"))
