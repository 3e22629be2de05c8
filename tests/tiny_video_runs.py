"""Models trained for a few training updates on data that ``skiprnn-prepare video`` made, and the videos."""

from dataclasses import dataclass
from pathlib import Path
from typing import List

import numpy as np

from skiprnn_plugin.cli.prepare import main as prepare
from skiprnn_plugin.prepare.frame_encoder import read_encoding

from .command_line import train
from .tiny_videos import write_video

VIDEOS = {"short.mp4": 3, "long.MP4": 7}  # names and numbers of frames
LENGTH = 5  # how many steps the models read
FRAME_RATE = 10


@dataclass
class VideoRuns:
    """Save-dirs of the models, and for each of ``VIDEOS`` the file of the video and that of its features, [T, 2048]."""

    classification: Path
    localization: Path
    data: Path
    weights: Path
    crc32: int
    videos: List[Path]
    features: List[Path]


def make_video_runs(folder: Path, weights: Path) -> VideoRuns:
    lines = ["sequence\tsplit\tlabel\tannotations\tduration"]
    for first, (name, count) in enumerate(VIDEOS.items()):
        write_video(folder / "source" / name, count, FRAME_RATE, first=20 * first)
        label = name.split(".")[0]
        lines.append(f"{name}\ttrain\t{label}\t{label} 0 1\t{count / FRAME_RATE}")
    write_video(folder / "source/other.mp4", 1, FRAME_RATE)
    lines.append("other.mp4\tvalid\tlong\tshort 0 1\t0.1")
    (folder / "source/manifest.tsv").write_text("\n".join(lines) + "\n")
    options = ["--weights", str(weights), "--frame-rate", str(FRAME_RATE)]
    assert prepare(["video", str(folder / "source"), str(folder / "data"), *options]) == 0
    model = ["--data-dir", folder / "data", "--sequence-length", LENGTH, "--normalize", "--update-bias", -1]
    train(folder / "classification", *model, task="feature_classification")
    train(folder / "localization", *model, "--frame-rate", FRAME_RATE, task="feature_localization")
    stored = np.load(folder / "data/features.npy")
    for name, array in zip(VIDEOS, np.split(stored, np.cumsum([*VIDEOS.values()]))):
        np.save(folder / f"{name}.npy", array)
    return VideoRuns(
        classification=folder / "classification",
        localization=folder / "localization",
        data=folder / "data",
        weights=weights,
        crc32=read_encoding(folder / "data").encoder["weights_crc32"],
        videos=[folder / "source" / name for name in VIDEOS],
        features=[folder / f"{name}.npy" for name in VIDEOS],
    )
