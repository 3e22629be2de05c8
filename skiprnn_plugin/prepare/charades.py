"""Reads Charades (Sigurdsson et al., ECCV 2016) as published: annotations, and the two-stream network's features."""

import csv
import os
import re
from pathlib import Path
from typing import Dict, Iterator, List, Sequence

import numpy as np

from ..data.manifest import check_name, parse_annotations
from .write_features import Source

WIDTH = 4096  # features of a frame, from layer fc7 of VGG-16
EVERY = 4  # every fourth frame has features: 6 of the 24 in a second
NEEDED = ("id", "actions", "length")


def read_charades(folder: Path, annotations: Sequence[Path], classes: Path) -> Source:
    """The videos of the training list, split train, and of the test list, split valid, on which papers report.

    A video is left out if the features of a frame are missing or are not 4,096 numbers.

    Args:
        folder: holds a folder ``ID`` of files ``ID-000001.txt``, ``ID-000005.txt``, ... for each video.
        annotations: ``Charades_v1_train.csv`` and ``Charades_v1_test.csv``.
        classes: ``Charades_v1_classes.txt``: a class and its meaning on each line, such as
            ``c000 Holding some clothes``.

    Raises:
        ValueError: one of these files is not what it should be.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder")
    names = _read_classes(classes)
    rows: Dict[str, Dict[str, str]] = {}
    for path, split in zip(annotations, ("train", "valid")):
        for row in _read_videos(path, split, names):
            if row["sequence"] in rows:
                raise ValueError(f"{path}: video {row['sequence']!r} is listed twice")
            rows[row["sequence"]] = row
    videos = list(rows)
    return Source(folder, list(rows.values()), WIDTH, names, lambda i: read_frames(folder, videos[i]), leaves_out=True)


def _read_classes(path: Path) -> List[str]:
    try:
        names = [line.split()[0] for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: can't be read ({error})") from error
    if not names or len(set(names)) < len(names):
        raise ValueError(
            f"{path}: expected a class on each line, each once, got {len(names)} lines and {len(set(names))} classes"
        )
    return names


def _read_videos(path: Path, split: str, classes: List[str]) -> Iterator[Dict[str, str]]:
    known = set(classes)
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, strict=True)
            missing = [name for name in NEEDED if name not in (reader.fieldnames or ())]
            if missing:
                raise ValueError(f"expected columns {', '.join(NEEDED)}, it has no {' and no '.join(missing)}")
            for line in reader:
                try:
                    yield _parse(line, split, known)
                except ValueError as error:
                    raise ValueError(f"line {reader.line_num}: {error}") from error
    except (OSError, csv.Error, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def _parse(line: Dict[str, str], split: str, known: set) -> Dict[str, str]:
    # a line break within a quoted field would break the manifest's line
    name, actions, length = (" ".join((line[column] or "").split()) for column in NEEDED)
    check_name(name)
    for annotation in parse_annotations(actions):
        if annotation.label not in known:
            raise ValueError(f"expected one of the {len(known)} classes, got {annotation.label!r}")
    if not re.fullmatch(r"[0-9]+(\.[0-9]*)?", length) or float(length) <= 0:
        raise ValueError(f"length: expected seconds, more than 0, got {length!r}")
    return {"sequence": name, "split": split, "annotations": actions, "duration": length}


def read_frames(folder: Path, video: str) -> np.ndarray:
    """A video's features, float32 [T, 4096], in the order of its frames.

    Raises ValueError if there are none, if a frame between others is missing, or if one is not 4,096 numbers.
    """
    pattern = re.compile(rf"{re.escape(video)}-([0-9]+)\.txt")
    try:
        files = {int(match[1]): match[0] for match in map(pattern.fullmatch, os.listdir(folder / video)) if match}
        if not files:
            raise ValueError(f"{folder / video}: no frames")
        for number, expected in zip(sorted(files), range(1, EVERY * len(files), EVERY)):
            if number != expected:
                raise ValueError(f"{folder / video}: expected frame {expected}, got {number} next")
        return np.stack([_read_frame(folder / video / files[number]) for number in sorted(files)])
    except OSError as error:
        raise ValueError(f"{error.filename}: can't be read ({error.strerror})") from error


def _read_frame(path: Path) -> np.ndarray:
    try:
        frame = np.array(path.read_bytes().split(), dtype=np.float32)
    except ValueError as error:
        raise ValueError(f"{path}: expected {WIDTH:,} numbers ({error})") from error
    if frame.shape != (WIDTH,):
        raise ValueError(f"{path}: expected {WIDTH:,} numbers, got {len(frame):,}")
    return frame
