"""Makes artificial videos in the form in which Charades is published, to try its recipe on.

    python -m tests.made_up_charades FOLDER [VIDEOS]     # VIDEOS is their number, by default 40; a video takes 3 MB

The videos are as long as those of Charades, and half of them are for training. What happens in them can be learned:
each of the 157 classes raises certain features in the frames in which it is present.
"""

import argparse
from pathlib import Path

import numpy as np

from skiprnn_plugin.data.localization import labels_at
from skiprnn_plugin.data.manifest import parse_annotations
from skiprnn_plugin.reading import show_progress

from .tiny_charades import write_charades

NAMES = [f"c{number:03d}" for number in range(157)]
FRAME_RATE = 6
WIDTH = 4096


def make_videos(count, seed=0):
    """The name, actions, seconds and number of frames of each video, by split, as in ``tiny_charades.VIDEOS``."""
    rng = np.random.default_rng(seed)
    videos = {"train": [], "test": []}
    for number in range(count):
        seconds = round(rng.uniform(20, 37), 2)
        actions = []
        for label in rng.choice(NAMES, size=rng.integers(3, 11), replace=False):
            start = rng.uniform(0, seconds - 5)
            actions.append(f"{label} {start:.2f} {start + rng.uniform(5, 20):.2f}")
        video = (f"V{number:04d}", ";".join(actions), f"{seconds:.2f}", int(FRAME_RATE * seconds))
        videos["train" if number % 2 == 0 else "test"].append(video)
    return videos


def frame_maker(videos, seed=0):
    """The argument ``make_frames`` of ``write_charades`` for these videos."""
    raised = np.random.default_rng(seed).random((len(NAMES), WIDTH)) < 0.01
    classes = {name: number for number, name in enumerate(NAMES)}
    actions = {name: text for listed in videos.values() for name, text, *_ in listed}

    def make_frames(name, count):
        rng = np.random.default_rng(list(name.encode()))
        labels = labels_at(np.arange(count) / FRAME_RATE, parse_annotations(actions[name]), classes)
        return np.maximum(rng.normal(-0.5, 1, (count, WIDTH)) + 2 * (labels @ raised), 0).round(6)

    return make_frames


def write_made_up_charades(folder, count):
    """Write ``count`` videos by ``write_charades``."""
    videos = make_videos(count)
    listed = {split: show_progress(rows, split, unit=" videos") for split, rows in videos.items()}
    write_charades(folder, listed, "".join(f"{name} Of {name}\n" for name in NAMES), frame_maker(videos))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.made_up_charades", description=__doc__.splitlines()[0])
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="the folder to make")
    parser.add_argument(
        "videos", metavar="VIDEOS", type=int, nargs="?", default=40, help="the number of videos (default: %(default)s)"
    )
    args = parser.parse_args()
    if args.videos < 2:
        parser.error(f"VIDEOS: expected at least 2, got {args.videos}")
    if args.folder.exists():
        parser.error(f"FOLDER: {args.folder} is there")
    args.folder.mkdir(parents=True)
    write_made_up_charades(args.folder, args.videos)
