"""``python -m benchmarks.video``: every frame is decoded, some are encoded, and bad input is one error."""

import pytest

from benchmarks.video import main

from .tiny_videos import write_video


@pytest.mark.thorough
def test_command(tmp_path, resnet50_weights, capsys):
    pytest.importorskip("av")
    videos = [str(write_video(tmp_path / f"{count}.mp4", count)) for count in (5, 3)]
    assert main([str(resnet50_weights), *videos, "--frames", "6"]) == 0
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert [row[:2] for row in rows[2:]] == [["decoding", "8"], ["encoding", "6"]]
    assert all(float(row[2].replace(",", "")) > 0 for row in rows[2:])


@pytest.mark.parametrize(
    "options, message",
    [
        (["--frames", "0"], "--frames: expected at least 1, got 0"),
        (["--threads", "0"], "--threads: expected at least 1, got 0"),
        ([], "no.mp4: can't be read as a video"),
    ],
)
def test_errors(resnet50_weights, capsys, options, message):
    pytest.importorskip("av")
    assert main([str(resnet50_weights), "no.mp4", *options]) == 2
    assert message in capsys.readouterr().err
