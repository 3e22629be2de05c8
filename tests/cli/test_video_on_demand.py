"""Videos of which only the frames that a model asks for are converted and encoded: the results are those of all."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from skiprnn_plugin.arguments import UserError
from skiprnn_plugin.cli.plot import main as plot_main
from skiprnn_plugin.cli.predict import main as predict_main
from skiprnn_plugin.hub import from_pretrained
from skiprnn_plugin.prepare import video
from skiprnn_plugin.prepare.video_reader import VideoReader, VideoWork
from skiprnn_plugin.runs.inputs import describe_video, open_videos, read_inputs
from skiprnn_plugin.runs.outcomes import predict_inputs

from ..command_line import train
from ..tiny_features import WIDTH, write_features
from ..tiny_video_runs import LENGTH
from ..tiny_videos import write_video

pytest.importorskip("av")
COUNT = 40  # frames
RATE = 10


class LastPixel:
    """In place of ResNet-50: the features of a frame are the colour of its last pixel."""

    width = WIDTH

    def __init__(self, shift=0.0):
        self.seen, self.shift = 0, shift

    def encode(self, frames):
        features = np.stack([frame[-1, -1] for frame in frames]).astype(np.float32) / 7 + np.float32(self.shift)
        self.seen += len(features)
        return features


def train_model(folder, *options):
    write_features(folder / "data")
    statistics = {"mean": np.array([10.0, 20.0, 14.0]), "std": np.array([8.0, 9.0, 1.0])}
    np.savez(folder / "data/statistics.npz", **statistics)
    options = ("--data-dir", folder / "data", "--normalize", "--update-bias", -2, "--max-update", 1, *options)
    train(folder / "run", *options, task="feature_classification")
    return from_pretrained(folder / "run")


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    return train_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return str(write_video(tmp_path_factory.mktemp("video") / "clip.mp4", COUNT, RATE))


def predict(hub, clips, encoder, stream, dtype=np.float32, most=None, batch_size=1):
    reader = VideoReader(encoder, RATE, np.dtype(dtype), most, stream)
    return list(predict_inputs(hub, read_inputs(hub, clips, [], reader), batch_size))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_results_are_those_of_all_frames(hub, clip, monkeypatch, capsys, dtype, batch_size):
    """To the bit, as the features are those of all frames."""
    converted, as_image = [], video._as_image
    monkeypatch.setattr(video, "_as_image", lambda frame: converted.append(as_image(frame)) or converted[-1])
    stream, encoder = hub.stream(), LastPixel()
    found = predict(hub, [clip, clip], encoder, stream, dtype, batch_size=batch_size)
    everything = predict(hub, [clip, clip], LastPixel(), None, dtype, batch_size=batch_size)
    for (read, prediction), (whole, expected) in zip(found, everything):
        np.testing.assert_array_equal(prediction.used, expected.used)
        np.testing.assert_array_equal(prediction.values, expected.values)
        np.testing.assert_array_equal(read.video.encoded, expected.used)
        assert whole.video.encoded.all() and len(read.encoded) == COUNT and read.kept == range(COUNT)
    used = int(expected.used.sum())
    assert 1 < used < COUNT / 2 and encoder.seen == 2 * used
    numbers = [int(frame[-1, -1, 0]) // 5 for frame in converted[: 2 * used]]  # see tiny_videos.image
    assert numbers == expected.used.nonzero()[0].tolist() * 2
    stream.skip(COUNT - stream.time)
    with torch.no_grad():
        _, state, _ = hub.model.rnn(whole.encoded[None])
    assert all(torch.equal(*parts) for parts in zip(state, stream.state) if parts[0] is not None)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" in ")[0] for line in lines] == [
        f"{clip}: used {used} of {COUNT} frames, encoded {count}" for count in (used, used, COUNT, COUNT)
    ]


@pytest.mark.parametrize("length, padding", [(12, "data"), (60, "data"), (60, "masked")])
def test_frames_that_are_cropped_and_padding(tmp_path, clip, length, padding):
    """A head of the video is read, or the whole of it and then padding, which has no frames."""
    hub = train_model(tmp_path, "--sequence-length", length, "--padding", padding)
    most = hub.task.inputs.head_steps
    ((read, prediction),) = predict(hub, [clip], LastPixel(), hub.stream(), most=most)
    ((_, expected),) = predict(hub, [clip], LastPixel(), None, most=most)
    np.testing.assert_array_equal(prediction.used, expected.used)
    np.testing.assert_array_equal(prediction.values, expected.values)
    assert read.video.encoded.tolist() == expected.used[: min(length, COUNT)].tolist()


def test_a_frame_that_was_not_encoded_is_never_used(hub, clip):
    """Should the pass over the whole video decide otherwise than the stream, because of rounding."""
    with pytest.raises(UserError, match=f"^{clip}: rounding made the model use a frame that .*; use --encode-all$"):
        predict(hub, [clip], LastPixel(), hub.stream(max_skip=None, min_skip=7))


@pytest.mark.parametrize("shift, message", [(np.inf, "float16, got inf"), (7e4, "float16, got ")])
def test_features_that_the_type_of_the_data_can_not_hold(hub, clip, shift, message):
    with pytest.raises(UserError, match=f"^{clip}: expected finite numbers in the range of {message}"):
        predict(hub, [clip], LastPixel(shift), hub.stream(), np.float16)


def test_videos_that_can_not_be_read(hub, tmp_path, clip):
    half = tmp_path / "half.avi"
    whole = write_video(tmp_path / "whole.avi", 60, RATE).read_bytes()
    half.write_bytes(whole[: len(whole) * 6 // 10])
    with pytest.raises(UserError, match=f"^{half}: can't be read as a video .*it is cut off"):
        predict(hub, [str(half)], LastPixel(), hub.stream())


@pytest.mark.parametrize(
    "setting, reason",
    [
        ("crop=tail", "--crop: expected head for a stream, got tail"),
        ("binarize=bernoulli", "--binarize: expected round, got bernoulli"),
        (None, "the model has no gate"),
        (None, None),
    ],
)
def test_models_that_need_all_frames(video_runs, capsys, monkeypatch, setting, reason):
    """The reason is on one line; with --encode-all there is none."""
    hub = from_pretrained(video_runs.classification, **dict([setting.split("=")] if setting else {}))
    hub.model.has_gate = setting is not None or reason is None
    monkeypatch.setattr(VideoReader, "frames", lambda *_: iter([0]))
    reader = open_videos(hub, [str(video_runs.videos[0])], video_runs.weights, encode_all=reason is None)
    assert reader.stream is None
    printed = capsys.readouterr().err
    if reason is None:
        assert printed == ""
    else:
        assert printed.count("\n") == 1 and printed.startswith("all frames are encoded") and reason in printed


@pytest.fixture(scope="module")
def thrifty(video_runs, tmp_path_factory):
    """A checkpoint whose model uses one frame in three."""
    path = tmp_path_factory.mktemp("thrifty") / "model.pt"
    state = torch.load(video_runs.classification / "checkpoint_best.pt", weights_only=False)
    state["model"]["rnn.update_weight"].zero_()
    state["model"]["rnn.update_bias"].fill_(-1.386)  # the update probability is 0.2
    torch.save(state, path)
    return path


@pytest.mark.parametrize(
    "main, arguments",
    [
        (predict_main, ["--json"]),
        pytest.param(plot_main, ["--output", "{output}"], marks=pytest.mark.thorough),
    ],
)
def test_commands(video_runs, thrifty, capsys, tmp_path, main, arguments):
    found, encoded = [], []
    for option in [[], ["--encode-all"]]:
        output = tmp_path / "frames.png"
        command = ["frames"] if main is plot_main else []
        command += [thrifty, video_runs.videos[1], "--weights", video_runs.weights, *option]
        command += [argument.format(output=output) for argument in arguments]
        assert main([str(argument) for argument in command]) == 0
        printed = capsys.readouterr()
        if main is predict_main:
            (item,) = json.loads(printed.out)
            found.append([item[name] for name in ("label", "used", "steps")])
        else:
            found.append(output.read_bytes())
        (line,) = [line for line in printed.err.splitlines() if "used" in line]
        encoded.append(int(line.split("encoded ")[1].split(" in ")[0]))
    assert found[0] == found[1]
    assert encoded == [2, LENGTH]


def test_counts_of_cropped_frames_and_two_directions():
    read = SimpleNamespace(name="x.mp4", kept=range(2, 5), video=VideoWork(np.ones(5, bool), 1.234))
    used = np.array([[True, False, False, True], [False, False, True, True]])
    line = describe_video(read, SimpleNamespace(used=used))
    assert line == "x.mp4: used 2 of 3 frames, encoded 5 in 1.23 s"
