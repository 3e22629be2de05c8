"""Features of the frames of labelled videos, as a source of sequences to write."""

from pathlib import Path

import numpy as np

from ..reading import show_progress
from .frame_encoder import FrameEncoder
from .video import read_frames
from .video_sources import Videos
from .write_features import Source


def encode_videos(folder: Path, videos: Videos, frame_rate: float, encoder: FrameEncoder) -> Source:
    """What to write: the features of each video's frames, made when a video's turn comes. Broken videos are left out.

    Args:
        folder: where the videos are from, for messages and the record.
        videos: the videos to encode.
        frame_rate: frames per second.
        encoder: makes features of frames.
    """

    def load(position: int) -> np.ndarray:
        frames = read_frames(videos.files[position], frame_rate)
        return encoder.encode(show_progress(frames, videos.rows[position]["sequence"], unit=" frames"))

    return Source(folder, videos.rows, encoder.width, videos.classes, load, leaves_out=True)
