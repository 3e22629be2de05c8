"""``skiprnn-predict`` on videos: as on their features that ``skiprnn-prepare video`` makes, and what it refuses."""

import json
import re
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from skiprnn_plugin.arguments import UserError
from skiprnn_plugin.cli.plot import main as plot
from skiprnn_plugin.cli.predict import main
from skiprnn_plugin.prepare.input_files import READERS
from skiprnn_plugin.prepare.video import NOT_VIDEOS
from skiprnn_plugin.prepare.video_reader import VideoReader

from ..command_line import ROOT, train
from ..forked import run_forked
from ..frozen.make import FOLDER
from ..tiny_features import WIDTH, write_features
from ..tiny_video_runs import FRAME_RATE, LENGTH, VIDEOS
from ..tiny_videos import image, write_video

pytest.importorskip("av")
CALL = (
    "import tests.torchvision_beside_cpu_torch, skiprnn_plugin.cli.predict as predict; raise SystemExit(predict.main())"
)


def check_same(items, names):
    """The first half are of videos, the second of their features."""
    assert [item["input"] for item in items] == list(map(str, names))
    for video, features in zip(items[: len(VIDEOS)], items[len(VIDEOS) :]):
        for name in ("label", "used", "steps"):
            assert video[name] == features[name]
        for label, values in features["probabilities"].items():
            np.testing.assert_allclose(video["probabilities"][label], values, atol=1e-5)
    assert len({str(item["used"]) for item in items}) > 1


def test_command(video_runs):
    """Videos shorter and longer than the model reads, as the user of a shell names them."""
    names = [*video_runs.videos, *video_runs.features]
    options = ("--weights", video_runs.weights, "--json")
    process = run_forked("-c", CALL, video_runs.classification, *names, *options, cwd=ROOT, PYTHONPATH=ROOT)
    assert process.returncode == 0, process.stderr
    items = json.loads(process.stdout)
    check_same(items, names)
    for item, line, steps in zip(items, process.stderr.splitlines(), VIDEOS.values()):
        frames, encoded = min(steps, LENGTH), item["encoded"]
        assert re.fullmatch(
            rf"{item['input']}: used {encoded} of {frames} frames, encoded {encoded} in [0-9.]+ s", line
        )
        assert encoded == sum(step < frames for step in item["used"]) and item["encoding_ms"] > 0


@pytest.mark.thorough
@pytest.mark.parametrize("batch_size", [1, 4])
def test_the_end_of_videos_and_spans_in_seconds(prints, video_runs, batch_size):
    names = [*video_runs.videos, *video_runs.features]
    options = ("--weights", video_runs.weights, "--set", "crop=tail", "--threshold", 0.01, "--batch-size", batch_size)
    items = json.loads(prints(main, video_runs.localization, *names, *options, "--json"))
    check_same(items, names)
    for item, steps in zip(items, [*VIDEOS.values()] * 2):
        expected = [max(steps - LENGTH, 0) / FRAME_RATE, steps / FRAME_RATE]
        assert [[span["start"], span["end"]] for span in item["spans"]] == [expected] * 2
    _, *rows = [line.split("\t") for line in prints(main, video_runs.localization, *names, *options).splitlines()]
    spans = [span for item in items for span in item["spans"]]
    assert [row[:1] + row[2:4] for row in rows] == [
        [span["label"], f"{span['start']:.3f}", f"{span['end']:.3f}"] for span in spans
    ]


@pytest.mark.thorough
def test_files_of_any_kind_are_videos_as_in_preparation(prints, video_runs, tmp_path):
    """What skiprnn-prepare video reads can be predicted too; FFmpeg tells the format by the content."""
    videos = [tmp_path / name for name in ("v.gif", "v.3gp", "v.ts", "v.flv", "v.MTS", "v.unknown", "v")]
    for video in videos:
        shutil.copy(video_runs.videos[0], video)
    options = ("--weights", video_runs.weights)
    names = [*videos, video_runs.features[0]]
    items = json.loads(prints(main, video_runs.classification, *names, *options, "--json"))
    assert [item["input"] for item in items] == list(map(str, names))
    assert all(item["used"] == items[-1]["used"] for item in items)
    prints(plot, "frames", video_runs.classification, videos[0], *options, "--output", tmp_path / "frames.png")


def test_all_files_but_those_of_other_readers_are_videos():
    assert set(NOT_VIDEOS) == {suffix for readers in READERS.values() for suffix in readers}


def thirds(frames):
    """In place of ResNet-50."""
    return np.stack([frame[-1, -1] for frame in frames]).astype(np.float32) / 3


@pytest.mark.parametrize("most, expected", [(3, 3), (None, 7)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_frames_that_are_cropped_need_no_encoding(tmp_path, most, expected, dtype):
    """And features are rounded as training read them."""
    reader = VideoReader(SimpleNamespace(encode=thirds), 25.0, np.dtype(dtype), most)
    features, work = reader.encode(str(write_video(tmp_path / "x.mp4", 7)))
    assert features.dtype == dtype and work.encoded.tolist() == [True] * expected
    np.testing.assert_array_equal(features, thirds(map(image, range(expected))).astype(dtype))


def test_features_that_the_type_of_the_data_can_not_hold(tmp_path):
    reader = VideoReader(SimpleNamespace(encode=lambda frames: 1e5 * thirds(frames)), 25.0, np.dtype(np.float16), None)
    with pytest.raises(UserError, match=f"^{tmp_path}/x.mp4: expected finite numbers in the range of float16, got "):
        reader.encode(str(write_video(tmp_path / "x.mp4", 1)))


@pytest.mark.parametrize(
    "options, message",
    [
        (
            [],
            "--weights: expected the file that skiprnn-prepare video was given, which video.mp4 needs as a video, "
            "got none",
        ),
        (["--weights", "absent.pth"], "absent.pth: can't be read (No such file or directory)"),
        (["--weights", "video.mp4"], "video.mp4: can't be read as torch's weights ("),
        (
            ["--weights", "other.pth"],
            "--weights: expected those that the model's data were made with, resnet50.pth (crc32 {crc32}), got ",
        ),
        (["--weights", "{weights}", "absent.mp4"], "absent.mp4: no such file"),
        (["--weights", "{weights}", "broken.mp4"], "broken.mp4: can't be read as a video ("),
        (["--weights", "{weights}", "text.txt"], "text.txt: expected a file .npy or .csv or .tsv or .png or a video"),
    ],
    ids=["no weights", "absent", "no weights at all", "others", "no video", "broken", "kind"],
)
def test_names_what_is_wrong(fails, video_runs, tmp_path, monkeypatch, options, message):
    """Before anything is encoded."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("skiprnn_plugin.prepare.frame_encoder.FrameEncoder.encode", None)
    write_video(tmp_path / "video.mp4", 2)
    for name in ("broken.mp4", "text.txt"):
        (tmp_path / name).write_text("no video\n")
    if "other.pth" in options:
        torch.save({**torch.load(video_runs.weights), "fc.bias": torch.ones(1000)}, "other.pth")
    options = [option.format(weights=video_runs.weights) for option in options]
    printed = fails(main, video_runs.classification, "video.mp4", *options)
    assert printed.startswith(f"skiprnn-predict: error: {message.format(crc32=video_runs.crc32)}")


@pytest.mark.parametrize("library, message", [("av", "videos need PyAV: "), ("torchvision", "need.* the torchvision ")])
def test_a_library_that_is_missing(fails, video_runs, monkeypatch, library, message):
    monkeypatch.setitem(sys.modules, library, None)
    printed = fails(main, video_runs.classification, video_runs.videos[0], "--weights", video_runs.weights)
    assert re.match(f"skiprnn-predict: error: .*{message}.*pip install", printed)


def test_models_that_read_other_features(fails, tmp_path):
    data, video = write_features(tmp_path / "data"), write_video(tmp_path / "video.mp4", 2)
    train(tmp_path / "run", "--data-dir", data, "--max-update", 1, task="feature_classification")
    printed = fails(main, tmp_path / "run", video, "--weights", "x.pth")
    assert f": error: {data}/prepare.json: expected frame_rate, dtype, " in printed
    record = {"frame_rate": 25, "dtype": "float32", "encoder": "x", "weights": "x.pth", "weights_crc32": 1}
    (data / "prepare.json").write_text(json.dumps(record))
    printed = fails(main, tmp_path / "run", video, "--weights", "x.pth")
    assert f": error: videos have 2,048 features in a frame, the model reads {WIDTH}\n" in printed
    printed = fails(main, FOLDER / "skip_gru.pt", video, "--weights", "x.pth")
    assert printed.endswith("video.mp4: expected a file .npy or .csv or .tsv or .png, as models of task adding read\n")
