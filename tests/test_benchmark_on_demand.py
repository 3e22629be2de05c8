"""``python -m benchmarks.on_demand``: its numbers of frames, the check of the results, and bad input."""

import pytest
import torch

from benchmarks.on_demand import build, main, measure

from .tiny_videos import write_video

SMALL = ["--hidden-size", "4", "--layers", "1", "--rounds", "1"]


def test_command(tmp_path, resnet50_weights, capsys):
    pytest.importorskip("av")
    video = write_video(tmp_path / "v.mp4", 9)
    assert main([str(resnet50_weights), str(video), "--frames", "8", "--every", "3", *SMALL]) == 0
    (row,) = [
        line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| v.mp4")
    ]
    assert row[:3] == ["v.mp4", "8", "3"] and row[-1] == "0.375"
    seconds, all_seconds, speed, share = map(float, row[3:7])
    assert 0 < seconds < all_seconds and speed > 1 > share


@pytest.mark.parametrize("every", [1, 2, 7])
def test_the_model_uses_a_frame_of_so_many(every):
    with torch.no_grad():
        updates = build(every, 4, 1)(torch.randn(1, 30, 2048))[2]
    assert updates[0].nonzero().squeeze(1).tolist() == list(range(0, 30, every))


def test_other_results_are_an_error(tmp_path):
    class Reader:
        def __init__(self, value):
            self.value = value

        def encode(self, path):
            return torch.full((4, 2048), self.value).numpy(), None

    with pytest.raises(RuntimeError, match="x.mp4: expected the same state"):
        measure(tmp_path / "x.mp4", {"on demand": Reader(0.0), "all": Reader(1.0)}, build(2, 4, 1), 1)


@pytest.mark.parametrize(
    "options, message",
    [
        (["--every", "0"], "--every: expected at least 1, got 0"),
        (["--layers", "0"], "--layers: expected at least 1, got 0"),
        ([], "no.mp4: can't be read as a video"),
    ],
)
def test_errors(resnet50_weights, capsys, options, message):
    pytest.importorskip("av")
    assert main([str(resnet50_weights), "no.mp4", *SMALL, *options]) == 2
    assert message in capsys.readouterr().err
