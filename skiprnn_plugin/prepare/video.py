"""Reads the frames of video files, which PyAV (FFmpeg) decodes."""

import contextlib
import heapq
import math
from collections import deque
from fractions import Fraction
from pathlib import Path
from typing import Any, Deque, Dict, Iterable, Iterator, List, Optional, Tuple

import numpy as np

from ..reading import first_sentence

# In lower case: files that skiprnn-predict reads as texts or arrays. Any other file may be a video, as there are more
# kinds of videos than a list has; FFmpeg tells by the content.
NOT_VIDEOS = (".csv", ".npy", ".png", ".tsv", ".txt")

NEARBY = 8  # frames; time stamps are sorted within a window of this many
LONGEST = 600  # the most seconds that a frame is shown; a longer time means that a time stamp is wrong
FINEST = 10**6  # the largest denominator of a frame rate, which is therefore at least 1 / FINEST
MOST_PIXELS = 2**26  # of a frame; more mean that the file is damaged
WHOLE = 0.95  # a file is cut off if it holds a smaller fraction of the duration that its header says


def is_video(path: str) -> bool:
    """Whether the file is taken for a video, by its name, in preparation as in prediction."""
    return Path(path).suffix.lower() not in NOT_VIDEOS


def read_frames(path: Path, frame_rate: float) -> Iterator[np.ndarray]:
    """Sample a video every ``1 / frame_rate`` seconds: one frame at a time, uint8 RGB [H, W, 3].

    Frame k is the one that is shown ``k / frame_rate`` seconds after the first. If ``frame_rate`` is within 1% of the
    video's mean rate, every frame comes once, even if time stamps are up to half a frame early or late. Frames are
    turned and mirrored as the file says.

    Raises:
        ValueError: the file can't be read, is not a video, has no frames, is cut off, or a part of it can't be decoded;
            or ``frame_rate`` is not a number above 0. Errors that the decoder conceals are not reported.
        ImportError: PyAV is missing.
    """
    return (frame.image for frame in decode_frames(path, frame_rate))


class DecodedFrame:
    """A frame of a video, which becomes an image when it is asked for one."""

    def __init__(self, path: Path, frame: Any):
        self._path, self._frame = path, frame
        self._image: Optional[np.ndarray] = None

    @property
    def image(self) -> np.ndarray:
        """The frame, uint8 RGB [H, W, 3]. Raises ValueError if FFmpeg can't convert it."""
        if self._image is None:
            with _explained(self._path):
                self._image = _as_image(self._frame)
        return self._image


def decode_frames(path: Path, frame_rate: float) -> Iterator[DecodedFrame]:
    """The frames that :func:`read_frames` yields, decoded, but not converted to images. Arguments and errors are the
    same."""
    if not 0 < frame_rate < math.inf:
        raise ValueError(f"frame_rate: expected frames in a second, more than 0, got {frame_rate}")
    av = _import_av()
    with (
        _explained(path),
        av.open(f"file:{path}", metadata_errors="replace", options={"max_pixels": str(MOST_PIXELS)}) as container,
    ):
        rate = max(Fraction(frame_rate).limit_denominator(FINEST), Fraction(1, FINEST))
        yield from _sample(path, container, rate)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn errors of FFmpeg, and ValueErrors, into ValueErrors that name the file."""
    av = _import_av()
    try:
        yield
    except (av.FFmpegError, ValueError) as error:
        reason = error.strerror if isinstance(error, av.FFmpegError) else error
        raise ValueError(f"{path}: can't be read as a video ({reason})") from error


def _import_av():
    try:
        import av
    except ImportError as error:
        raise ImportError(f"videos need PyAV: pip install 'skiprnn-plugin[video]' ({first_sentence(error)})") from error
    return av


def _sample(path: Path, container: Any, frame_rate: Fraction) -> Iterator[DecodedFrame]:
    from av.stream import Disposition

    stream = container.streams.best("video")
    if stream is None or Disposition.attached_pic in stream.disposition:  # the latter is a sound file's cover
        raise ValueError("it has no pictures")
    step = 1 / Fraction(stream.average_rate or frame_rate)
    early = _tolerance(step, Fraction(stream.time_base), frame_rate)
    number = 0
    for frame, end in _with_ends(_with_starts(_decode(container, stream), step), step):
        decoded = DecodedFrame(path, frame)
        while number / frame_rate + early < end:
            yield decoded
            number += 1
    if number == 0:
        raise ValueError("it has no frames")


def _tolerance(step: Fraction, tick: Fraction, frame_rate: Fraction) -> Fraction:
    """How many seconds before its start a frame already counts as shown."""
    if abs(frame_rate * step - 1) < Fraction(1, 100):
        return step / 2
    # If a frame does not last a whole number of ticks of the file's clock, its time stamps are rounded to ticks
    return tick / 2 if tick < step / 10 else Fraction(0)


def _decode(container: Any, stream: Any) -> Iterator[Any]:
    """All frames of a file. Raises ValueError if the file is cut off."""
    ends, is_cut = {stream: 0.0}, False  # where each stream ends, in seconds
    for packet in container.demux():
        if packet.size:  # an empty packet tells a decoder that the stream has ended
            stamp = packet.dts if packet.pts is None else packet.pts
            end = float(((stamp or 0) + (packet.duration or 0)) * packet.time_base)
            ends[packet.stream] = max(end, ends.get(packet.stream, 0.0))
            is_cut = packet.is_corrupt
        if packet.stream is stream:
            yield from packet.decode()
    _check_whole(container, stream, ends, is_cut)


def _check_whole(container: Any, stream: Any, ends: Dict[Any, float], is_cut: bool) -> None:
    """Raise ValueError if the file's last packet is incomplete, or if its header says that the file is longer."""
    format_name, end, expected = container.format.name, ends[stream], 0.0
    if format_name == "avi" and stream.average_rate:  # FFmpeg shortens the duration of a file that is cut off
        expected = float(stream.frames / stream.average_rate)
    elif format_name.startswith("mov,"):
        expected = float(((stream.start_time or 0) + (stream.duration or 0)) * stream.time_base)
    elif format_name.startswith("matroska,"):
        expected, end = ((container.start_time or 0) + (container.duration or 0)) / 1e6, max(ends.values())
    if is_cut or end < WHOLE * expected:
        raise ValueError(f"it is cut off after {end:.3g} of {expected:.3g} seconds")


def _with_starts(frames: Iterable[Any], step: Fraction) -> Iterator[Tuple[Any, Fraction]]:
    """The frames, each with the time when it is shown, in seconds after the first.

    A decoder gives frames in the order in which they are shown, but their time stamps can be in another order: in AVI
    files with packed B-frames (DivX, Xvid; UCF-101 has them), neighbouring frames have exchanged theirs. Sorting
    corrects this.
    """
    first = last = None
    for frame, stamp in _sorted_stamps(frames, step):
        first = stamp if first is None else first
        start = stamp - first
        if last is not None and start - last > LONGEST:
            raise ValueError(f"its time stamps jump by {float(start - last):g} seconds")
        if last is not None and start <= last:  # the time stamp is wrong
            start = last + step
        last = start
        yield frame, start


def _sorted_stamps(frames: Iterable[Any], step: Fraction) -> Iterator[Tuple[Any, Fraction]]:
    """The frames in the given order, with time stamps in seconds that are sorted within a window of NEARBY frames."""
    waiting: Deque[Any] = deque()
    stamps: List[Fraction] = []
    next_stamp = Fraction(0)  # for a frame without a time stamp: the end of the frame before it
    for frame in frames:
        stamp = next_stamp if frame.pts is None else frame.pts * frame.time_base
        next_stamp = stamp + (frame.duration * frame.time_base if frame.duration > 0 else step)
        waiting.append(frame)
        heapq.heappush(stamps, stamp)
        if len(waiting) > NEARBY:
            yield waiting.popleft(), heapq.heappop(stamps)
    while waiting:
        yield waiting.popleft(), heapq.heappop(stamps)


def _with_ends(frames: Iterable[Tuple[Any, Fraction]], step: Fraction) -> Iterator[Tuple[Any, Fraction]]:
    """The frames, each with the time until which it is shown: the start of the next frame.

    The last frame is shown for as long as the file says, or for the mean time of a frame.
    """
    frame = start = None
    for following, end in frames:
        if frame is not None:
            yield frame, end
        frame, start = following, end
    if frame is not None:
        yield frame, start + (min(frame.duration * frame.time_base, LONGEST) if frame.duration > 0 else step)


def _as_image(frame: Any) -> np.ndarray:
    return np.ascontiguousarray(_oriented(frame.to_ndarray(format="rgb24"), _display_matrix(frame)))


def _display_matrix(frame: Any) -> np.ndarray:
    """Where a picture is shown: columns and rows (x, y) become (x, y) times this matrix [2, 2], apart from a shift."""
    stored = frame.side_data.get("DISPLAYMATRIX")
    return np.eye(2) if stored is None else np.frombuffer(stored, np.int32).reshape(3, 3)[:2, :2].astype(float)


def _oriented(image: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """The picture turned by the multiple of 90 degrees that is nearest, and mirrored if the matrix mirrors."""
    (across, down), (down_across, down_down) = matrix  # where a step to the right leads, and where a step down leads
    if abs(across) + abs(down_down) < abs(down) + abs(down_across):
        image, across, down_down = image.swapaxes(0, 1), down_across, down
    return image[:: -1 if down_down < 0 else 1, :: -1 if across < 0 else 1]
