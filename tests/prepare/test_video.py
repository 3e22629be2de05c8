"""Videos: the right frames are read, even if time stamps are wrong; damaged files are refused."""

import random
import struct
import sys
import wave
from fractions import Fraction

import numpy as np
import pytest

from skiprnn_plugin.prepare.video import read_frames

from ..command_line import ROOT, run
from ..tiny_texts import damaged
from ..tiny_videos import image, write_video

av = pytest.importorskip("av")

NTSC = Fraction(30000, 1001)
MILLISECOND = Fraction(1, 1000)


def numbers(path, frame_rate):
    """The numbers of the frames that are read; asserts that their pixels are exact."""
    found = []
    for frame in read_frames(path, frame_rate):
        found.append(int(frame[-1, -1, 0]) // 5)
        np.testing.assert_array_equal(frame, image(found[-1]))
    return found


@pytest.mark.parametrize("rate", [10, 25, NTSC], ids=str)
@pytest.mark.parametrize("suffix", ["avi", "mp4", "mkv", "mov"])
def test_at_its_own_rate_every_frame_once(tmp_path, suffix, rate):
    path = write_video(tmp_path / f"v.{suffix}", 20, rate)
    assert numbers(path, float(rate)) == list(range(20))
    assert numbers(path, round(float(rate), 2)) == list(range(20))


@pytest.mark.parametrize("suffix", ["avi", "mp4"])
@pytest.mark.parametrize(
    "rate, frame_rate", [(25, 10), (10, 25), (NTSC, 25), (24, 25), (25, 50), (10, 0.1), (25, 1e-9)], ids=str
)
def test_at_another_rate_those_that_are_shown(tmp_path, suffix, rate, frame_rate):
    path = write_video(tmp_path / f"v.{suffix}", 30, rate)
    sampled = Fraction(str(frame_rate))
    shown = [int(k * rate / sampled) for k in range(1000) if k * rate / sampled < 30]
    assert numbers(path, frame_rate) == shown


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_at_a_variable_rate(tmp_path, suffix):
    times = [0, 100, 120, 140, 400, 410, 600]
    path = write_video(tmp_path / f"v.{suffix}", 7, 25, times=times, clock=MILLISECOND)
    shown = [max(number for number, time in enumerate(times) if time <= 50 * k) for k in range(13)]
    assert numbers(path, 20)[:13] == shown == [0, 0, 1, 3, 3, 3, 3, 3, 4, 5, 5, 5, 6]


def swapped(packets):
    """Time stamps as in AVI files with packed B-frames: 1, 2, 4, 3, 5, 7, 6, ..."""
    for packet in packets:
        packet.pts = packet.dts + 1
    for one, other in zip(packets[2::3], packets[3::3]):
        one.pts, other.pts = other.pts, one.pts
    return packets


def restarted(packets):
    """The clock starts from 0 again in the middle, as in concatenated files."""
    for number, packet in enumerate(packets):
        packet.pts = packet.dts = number if number < 10 else number - 10
    return packets


@pytest.mark.parametrize(
    "name, options",
    [
        ("early and late.mkv", {"times": [40 * k + (0, 15, -15, 9)[k % 4] for k in range(20)], "clock": MILLISECOND}),
        ("rounded.mkv", {"times": [round(1000 * k / NTSC) for k in range(20)], "clock": MILLISECOND, "rate": NTSC}),
        ("swapped.mkv", {"change": swapped, "bf": "0"}),
        ("none.h264", {"container": "h264"}),
        ("late.mp4", {"times": [1000 + k for k in range(20)]}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_whatever_its_time_stamps(tmp_path, name, options):
    path = write_video(tmp_path / name, 20, **options)
    assert numbers(path, float(options.get("rate", 25))) == list(range(20))


@pytest.mark.parametrize("rate", [10, 25, 50])
def test_a_stream_without_time_stamps_has_its_own_rate(tmp_path, rate):
    """FFmpeg gives 25 frames in a second as the mean rate of such files, but the frames know how long they last."""
    path = write_video(tmp_path / "v.h264", 20, rate, container="h264")
    assert numbers(path, 10) == [k * rate // 10 for k in range(200 // rate)]


def left_out(packets):
    """Frames last long, as screen recorders write them while nothing changes."""
    for packet, time in zip(packets, (0, 1, 5, 6, 9)):
        packet.pts = packet.dts = time
    return packets


def trimmed(packets):
    """The first three frames are only needed to decode others, and are not shown."""
    for packet in packets:
        packet.pts, packet.dts = packet.pts - 3, packet.dts - 3
    return packets


@pytest.mark.parametrize(
    "name, change, shown",
    [
        ("v.mkv", left_out, [0, 1, 1, 1, 1, 2, 3, 3, 3, 4]),
        ("v.avi", left_out, [0, 0, 0, 0, 1, 2, 2, 2, 3, 4]),  # its packets have no stamps, and FFmpeg's are one late
        ("v.mp4", trimmed, [3, 4]),
    ],
)
def test_frames_that_are_not_there(tmp_path, name, change, shown):
    path = write_video(tmp_path / name, 5, change=change, bf="0")
    assert numbers(path, 25) == shown


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("degrees, corner", [(0, (0, 0)), (90, (0, 1)), (180, (1, 1)), (270, (1, 0))])
def test_turned_and_mirrored_as_the_file_says(tmp_path, degrees, corner, mirrored):
    """Clockwise, as a telephone notes how it was held; then left and right exchanged, as selfie cameras do."""
    path = write_video(tmp_path / "v.mp4", 1)
    cos, sin = (round(x(np.radians(degrees))) for x in (np.cos, np.sin))
    set_matrix(path, *((-cos, sin, sin, cos) if mirrored else (cos, sin, -sin, cos)))
    (frame,) = read_frames(path, 25)
    assert frame.shape == ((48, 64, 3), (64, 48, 3))[degrees // 90 % 2]
    white = [(y, x) for y in (0, 1) for x in (0, 1) if (frame[-y, -x] == 255).all()]
    assert white == [(corner[0], 1 - corner[1]) if mirrored else corner]


def test_a_matrix_of_zeros(tmp_path):
    """The file is damaged there, and the frames are shown as they are stored."""
    path = write_video(tmp_path / "v.mp4", 1)
    set_matrix(path, 0, 0, 0, 0)
    np.testing.assert_array_equal(*read_frames(path, 25), image(0))


def set_matrix(path, a, b, c, d):
    content = bytearray(path.read_bytes())
    # 40 bytes into the track's header is its matrix (ISO/IEC 14496-12, 8.3.2)
    matrix = [a << 16, b << 16, 0, c << 16, d << 16, 0, 0, 0, 1 << 30]
    struct.pack_into(">9i", content, content.index(b"tkhd") + 44, *matrix)
    path.write_bytes(content)


def cut(suffix, kept):
    def write(path):
        whole = write_video(path.with_suffix(suffix), 60, movflags="faststart").read_bytes()
        path.write_bytes(whole[: round(kept * len(whole))])

    return write


def write_sound(path):
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(bytes(16000))


def write_sound_with_cover(path):
    """As files .mp3 and .m4a are, whose cover FFmpeg takes for a video of one frame."""
    with av.open(str(path), "w", format="mp3") as file:
        sound = file.add_stream("libmp3lame", rate=44100)
        cover = file.add_stream("mjpeg", rate=1)
        cover.height, cover.width, cover.pix_fmt = *image(0).shape[:2], "yuvj420p"
        cover.disposition = av.stream.Disposition.attached_pic
        picture = av.VideoFrame.from_ndarray(image(0), format="rgb24").reformat(format="yuvj420p")
        silence = av.AudioFrame.from_ndarray(np.zeros((2, 50000), np.float32), format="fltp", layout="stereo")
        silence.rate = 44100
        for stream, frame in ((cover, picture), (sound, silence)):
            for packet in [*stream.encode(frame), *stream.encode()]:
                file.mux(packet)


def leap(packets):
    packets[1].pts = packets[1].dts = 10**6
    return packets[:2]


@pytest.mark.parametrize(
    "write, message",
    [
        (lambda path: None, "No such file or directory"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.write_bytes(b""), "Invalid data|End of file"),
        (lambda path: path.write_text("No video at all.\n" * 100), "Invalid data"),
        (write_sound, "it has no pictures"),
        (write_sound_with_cover, "it has no pictures"),
        (lambda path: write_video(path, 2, container="matroska", change=leap, bf="0"), "its time stamps jump by 4"),
        (cut(".avi", 0.6), "it is cut off after .* of 2.4 seconds"),
        (cut(".mkv", 0.6), "it is cut off after 1.* of 2.4 seconds"),
        (cut(".mov", 0.6), "Invalid data|moov"),
    ],
)
def test_what_is_no_whole_video(tmp_path, write, message):
    write(tmp_path / "v.avi")
    with pytest.raises(ValueError, match=f"^{tmp_path}/v.avi: can't be read as a video .*({message})"):
        list(read_frames(tmp_path / "v.avi", 25))


@pytest.mark.parametrize("frame_rate", [0, -1, float("nan"), float("inf")])
def test_wrong_frame_rates(tmp_path, frame_rate):
    with pytest.raises(ValueError, match="frame_rate: expected frames in a second, more than 0, got"):
        list(read_frames(tmp_path / "v.avi", frame_rate))


@pytest.mark.thorough
def test_damaged_files(tmp_path):
    """Damaged files are read or refused, in finite time; in a separate process, as FFmpeg might end it."""
    rng = random.Random(1)
    for suffix in ("avi", "mp4", "mkv"):
        original = write_video(tmp_path / f"v.{suffix}", 12).read_bytes()
        for number in range(50):
            (tmp_path / f"{number}.{suffix}").write_bytes(damaged(original, rng))
    code = """
import sys
from pathlib import Path
from skiprnn_plugin.prepare.video import read_frames
for path in Path(sys.argv[1]).glob("[0-9]*"):
    try:
        print(sum(frame.dtype == "uint8" for frame in read_frames(path, 25)))
    except ValueError as error:
        assert str(error).startswith(f"{path}: can't be read as a video (") and "\\n" not in str(error), error
        print("refused")
"""
    process = run("timeout", 60, sys.executable, "-c", code, tmp_path, PYTHONPATH=ROOT)
    assert process.returncode == 0, process.stderr
    outcomes = process.stdout.split()
    assert len(outcomes) == 150 and outcomes.count("refused") > 10 and outcomes.count("12") > 10
