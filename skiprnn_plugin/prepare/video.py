"""Frames of video files, decoded by PyAV (FFmpeg)."""

import heapq
import math
from collections import deque
from fractions import Fraction
from pathlib import Path
from typing import Any, Deque, Dict, Iterable, Iterator, List, Tuple

import numpy as np

from ..reading import first_sentence

SUFFIXES = (".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".webm", ".wmv")  # in lower case

NEARBY = 8  # frames among which time stamps are put into order
LONGEST = 600  # seconds that a frame is shown at most; more is a wrong time stamp
FINEST = 10**6  # the largest denominator of a frame rate, which thus is 1 / FINEST at least
LARGEST = 2**26  # pixels of a frame at most; more is a damaged file
WHOLE = 0.95  # of the time that a file says that it lasts must be there


def read_frames(path: Path, frame_rate: float) -> Iterator[np.ndarray]:
    """The frames of a video that are shown every ``1 / frame_rate`` seconds, one at a time, uint8 RGB [H, W, 3].

    Frame k is the one that is shown ``k / frame_rate`` seconds after the first. At the video's own rate (its mean, to
    one in a hundred) that is every frame once, even where time stamps are up to half a frame early or late. Frames
    are turned as the file says that they are to be shown.

    Raises:
        ValueError: the file can't be read, is no video, has no frames, breaks off, or a part of it can't be decoded;
            or ``frame_rate`` is not a number above 0. Errors that the decoder conceals are none.
        ImportError: there is no PyAV.
    """
    if not 0 < frame_rate < math.inf:
        raise ValueError(f"frame_rate: expected frames in a second, more than 0, got {frame_rate}")
    av = _import_av()
    try:
        with av.open(f"file:{path}", metadata_errors="replace", options={"max_pixels": str(LARGEST)}) as container:
            yield from _sample(container, max(Fraction(frame_rate).limit_denominator(FINEST), Fraction(1, FINEST)))
    except (av.FFmpegError, ValueError) as error:
        reason = error.strerror if isinstance(error, av.FFmpegError) else error
        raise ValueError(f"{path}: can't be read as a video ({reason})") from error


def _import_av():
    try:
        import av
    except ImportError as error:
        raise ImportError(f"videos need PyAV: pip install 'skiprnn-plugin[video]' ({first_sentence(error)})") from error
    return av


def _sample(container: Any, frame_rate: Fraction) -> Iterator[np.ndarray]:
    stream = container.streams.best("video")
    if stream is None:
        raise ValueError("it has no pictures")
    step = 1 / Fraction(stream.average_rate or frame_rate)
    early = _tolerance(step, Fraction(stream.time_base), frame_rate)
    number = 0
    for frame, end in _with_ends(_with_starts(_decode(container, stream), step), step):
        image = None
        while number / frame_rate + early < end:
            if image is None:
                image = _as_image(frame)
            yield image
            number += 1
    if number == 0:
        raise ValueError("it has no frames")


def _tolerance(step: Fraction, tick: Fraction, frame_rate: Fraction) -> Fraction:
    """How long before it begins a frame counts as shown, in seconds."""
    if abs(frame_rate * step - 1) < Fraction(1, 100):
        return step / 2
    # Where a tick of the file's clock does not divide a frame's time, stamps are rounded to it
    return tick / 2 if tick < step / 10 else Fraction(0)


def _decode(container: Any, stream: Any) -> Iterator[Any]:
    """All frames of a file. Raises ValueError if it breaks off."""
    ends, is_cut = {stream: 0.0}, False  # of each stream, in seconds
    for packet in container.demux():
        if packet.size:  # else it tells a decoder that there is no more
            stamp = packet.dts if packet.pts is None else packet.pts
            end = float(((stamp or 0) + (packet.duration or 0)) * packet.time_base)
            ends[packet.stream] = max(end, ends.get(packet.stream, 0.0))
            is_cut = packet.is_corrupt
        if packet.stream is stream:
            yield from packet.decode()
    _check_whole(container, stream, ends, is_cut)


def _check_whole(container: Any, stream: Any, ends: Dict[Any, float], is_cut: bool) -> None:
    """Raise ValueError if the file's last packet is not all there, or it should go on, as far as its format tells."""
    format_name, end, expected = container.format.name, ends[stream], 0.0
    if format_name == "avi" and stream.average_rate:  # where a file is cut off, FFmpeg shortens its duration
        expected = float(stream.frames / stream.average_rate)
    elif format_name.startswith("mov,"):
        expected = float(((stream.start_time or 0) + (stream.duration or 0)) * stream.time_base)
    elif format_name.startswith("matroska,"):
        expected, end = ((container.start_time or 0) + (container.duration or 0)) / 1e6, max(ends.values())
    if is_cut or end < WHOLE * expected:
        raise ValueError(f"it breaks off after {end:.3g} of {expected:.3g} seconds")


def _with_starts(frames: Iterable[Any], step: Fraction) -> Iterator[Tuple[Any, Fraction]]:
    """When each is shown, in seconds after the first.

    A decoder gives frames in the order in which they are shown. Their time stamps can be in another: in AVI files with
    packed B-frames (DivX, Xvid; UCF-101 has them), neighbours have each other's. Sorted, they are right.
    """
    first = last = None
    for frame, stamp in _sorted_stamps(frames, step):
        first = stamp if first is None else first
        start = stamp - first
        if last is not None and start - last > LONGEST:
            raise ValueError(f"its time stamps leap by {float(start - last):g} seconds")
        if last is not None and start <= last:  # it is no stamp of this frame
            start = last + step
        last = start
        yield frame, start


def _sorted_stamps(frames: Iterable[Any], step: Fraction) -> Iterator[Tuple[Any, Fraction]]:
    """The frames as they come, with their time stamps in order, among those nearby; in seconds."""
    waiting: Deque[Any] = deque()
    stamps: List[Fraction] = []
    stamp = -step
    for frame in frames:
        stamp = stamp + step if frame.pts is None else frame.pts * frame.time_base
        waiting.append(frame)
        heapq.heappush(stamps, stamp)
        if len(waiting) > NEARBY:
            yield waiting.popleft(), heapq.heappop(stamps)
    while waiting:
        yield waiting.popleft(), heapq.heappop(stamps)


def _with_ends(frames: Iterable[Tuple[Any, Fraction]], step: Fraction) -> Iterator[Tuple[Any, Fraction]]:
    """Until when each is shown: the next one's start; the last for as long as the file says, or a frame's mean time."""
    frame = start = None
    for following, end in frames:
        if frame is not None:
            yield frame, end
        frame, start = following, end
    if frame is not None:
        yield frame, start + (min(frame.duration * frame.time_base, LONGEST) if frame.duration > 0 else step)


def _as_image(frame: Any) -> np.ndarray:
    image = frame.to_ndarray(format="rgb24")
    return np.ascontiguousarray(np.rot90(image, round(frame.rotation / 90)))  # both count anticlockwise
