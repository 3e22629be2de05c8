"""A tiny data set in the form in which Charades is published: lists of videos, and features of their frames."""

import numpy as np

CLASSES = "c000 Holding some clothes\nc001 Putting clothes somewhere\nc002 Taking some clothes\n"
HEADER = "id,subject,scene,quality,relevance,verified,script,objects,descriptions,actions,length\r\n"
# Name, actions, seconds, frames
VIDEOS = {
    "train": [
        ("AAAA1", "c000 0.00 0.50;c002 0.20 1.90", "1.00", 6),
        ("B2B2B", "", "0.50", 3),
        ("CCC33", "c001 0.40 0.10", "0.20", 1),
    ],
    "test": [("D4D4D", "c001 0.00 0.30", "0.33", 2), ("EEEE5", "c000 0.00 9.00", "0.70", 4)],
}


def frames(name, count):
    """The features of a video's frames, float32 [count, 4096], with six decimals as in the published files."""
    rng = np.random.default_rng(list(name.encode()))
    return np.maximum(rng.normal(size=(count, 4096)), 0).round(6).astype(np.float32)


def write_charades(folder, videos=VIDEOS, classes=CLASSES, make_frames=frames):
    """Write the folder ``rgb`` and the files ``train.csv``, ``test.csv`` and ``classes.txt``."""
    for split, listed in videos.items():
        lines = [
            f'{name},S1,Kitchen,6,7,Yes,"A, ""b""\nc",x;y,z,{actions},{length}\r\n'
            for name, actions, length, _ in listed
        ]
        (folder / f"{split}.csv").write_text(HEADER + "".join(lines), newline="")
        for name, *_, count in listed:
            (folder / "rgb" / name).mkdir(parents=True)
            for number, frame in enumerate(make_frames(name, count)):
                path = folder / "rgb" / name / f"{name}-{4 * number + 1:06d}.txt"
                path.write_text(" ".join(f"{value:g}" for value in frame) + "\n")
    (folder / "classes.txt").write_text(classes)
    return folder
