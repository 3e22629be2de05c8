"""``skiprnn-prepare video``, interrupted: the next call resumes, if it has the same settings."""

import os
import signal

import pytest

from skiprnn_plugin.cli.prepare import main

from ..command_line import ROOT
from ..forked import run_forked
from ..tiny_ucf101 import VIDEOS, command, write_ucf101

pytest.importorskip("av")

FRAMES = [range(first, first + count) for videos in VIDEOS.values() for _, count, first in videos]


@pytest.fixture
def source(tmp_path):
    return write_ucf101(tmp_path / "source")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def numbers(videos):
    """Of all frames of these videos, by their place."""
    return [number for frames in FRAMES[videos] for number in frames]


def exit_code(code, arguments):
    """Of the command in a process of its own, which runs some code first."""
    code = f"""
import sys
from skiprnn_plugin.cli.prepare import main
from skiprnn_plugin.prepare import frame_encoder
from tests.tiny_ucf101 import CornerEncoder
frame_encoder.FrameEncoder = CornerEncoder
{code}
sys.exit(main(sys.argv[1:]))
"""
    return run_forked("-c", code, *arguments, PYTHONPATH=ROOT).returncode


@pytest.mark.parametrize(
    "videos, how", [*((videos, signal.SIGINT) for videos in range(5)), (0, signal.SIGKILL), (3, signal.SIGKILL)]
)
def test_it_goes_on(prints, tmp_path, source, corner_encoder, monkeypatch, videos, how):
    """Stopped in a video: those before it are not encoded again, and the result is the same to the last bit."""
    prints(main, *command(source, tmp_path / "whole"))
    arguments = command(source, tmp_path / "dest")
    stop = (len(numbers(slice(videos))) + 2, int(how))
    if how is signal.SIGKILL:
        assert exit_code(f"CornerEncoder.stop = {stop}", arguments) == -how
    else:
        corner_encoder.seen.clear()
        monkeypatch.setattr(corner_encoder, "stop", stop)
        assert main(arguments) == 130
        monkeypatch.setattr(corner_encoder, "stop", (0, 0))
    assert not (tmp_path / "dest").exists()
    corner_encoder.seen.clear()
    prints(main, *arguments)
    assert corner_encoder.seen == numbers(slice(videos, None))
    assert contents(tmp_path / "dest") == contents(tmp_path / "whole")
    assert sorted(os.listdir(tmp_path)) == ["dest", "source", "whole"]


@pytest.mark.parametrize(
    "options",
    [("--frame-rate", "12.5"), ("--weights", "other.pth"), ("--dtype", "float16"), ("--batch-size", "7")],
    ids=" ".join,
)
def test_other_settings_start_anew(prints, tmp_path, source, corner_encoder, monkeypatch, options):
    """But not those that change nothing in the features."""
    monkeypatch.setattr(corner_encoder, "stop", (len(numbers(slice(2))) + 1, signal.SIGINT))
    assert main(command(source, tmp_path / "dest")) == 130
    monkeypatch.setattr(corner_encoder, "stop", (0, 0))
    corner_encoder.seen.clear()
    prints(main, *command(source, tmp_path / "dest"), *options)
    begun = {"--frame-rate": FRAMES[0][::2], "--batch-size": FRAMES[2]}.get(options[0], FRAMES[0])
    assert corner_encoder.seen[: len(begun)] == list(begun)
    assert os.listdir(tmp_path / "dest") and sorted(os.listdir(tmp_path)) == ["dest", "source"]


def test_a_video_that_comes_later_is_not_lost(prints, tmp_path, source, corner_encoder, monkeypatch):
    """As when the videos are still being fetched."""
    late = source / "UCF-101/Archery/v_Archery_g08_c01.avi"
    content = late.read_bytes()
    late.unlink()
    monkeypatch.setattr(corner_encoder, "stop", (5, signal.SIGINT))
    assert main(command(source, tmp_path / "dest")) == 130
    late.write_bytes(content)
    monkeypatch.setattr(corner_encoder, "stop", (0, 0))
    assert "train 3 sequences (12 steps), valid 2 sequences" in prints(main, *command(source, tmp_path / "dest"))
