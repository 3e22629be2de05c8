"""Finds the videos that ``skiprnn-prepare video`` reads: those of UCF-101's lists, or of the user's manifest."""

import os
from collections import Counter
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Set

from ..data.manifest import MANIFEST, check_name, find_manifest, read_lines, read_manifest
from ..reading import show_progress
from .feature_sources import list_classes
from .video import NOT_VIDEOS, is_video, read_frames

CLASS_NUMBERS = "classInd.txt"


class Videos(NamedTuple):
    """Labelled videos.

    Attributes:
        rows: the manifest's columns for each video, without ``steps``; its name is its path without the suffix, or
            with it where another video has the same name.
        files: the path of each video.
        classes: the labels that videos may have.
        missing: the paths of listed videos that do not exist.
    """

    rows: List[Dict[str, str]]
    files: List[Path]
    classes: List[str]
    missing: List[str]


class _Listed(NamedTuple):
    place: str  # FILE:LINE of the list that names the video, for messages
    path: str
    fields: Dict[str, str]


def read_listed(folder: Path) -> Videos:
    """The videos that the manifest in their folder lists.

    The manifest has the format of :func:`skiprnn_plugin.data.manifest.read_manifest` without the column ``steps``; the
    column ``sequence`` has the paths of the videos within the folder. The folder may also hold ``classes.txt``.

    Raises:
        ValueError: one of these files is not what it should be, or no video of a split exists.
    """
    manifest = find_manifest(folder)
    if not manifest.is_file():
        raise ValueError(f"{folder}: expected {MANIFEST} in it, or UCF-101's lists beside it (--splits), got neither")
    items = read_manifest(folder, (), has_steps=False)
    listed = [_Listed(f"{manifest}:{item.line}", item.name, item.fields) for item in items]
    return _find(folder, listed, list_classes(folder, items))


def read_ucf101(folder: Path, lists: Path, number: int) -> Videos:
    """The videos of UCF-101 (Soomro et al., 2012), by one of its three official splits.

    Args:
        folder: ``UCF-101``, which holds a folder for each class.
        lists: ``ucfTrainTestlist``, which holds ``classInd.txt``, ``trainlist01.txt`` (split train), ``testlist01.txt``
            (split valid, on which papers report) and so on.
        number: which of the three official splits, from 1.

    Raises:
        ValueError: one of these files is not what it should be, or no video of a split exists.
    """
    classes = _read_classes(lists / CLASS_NUMBERS)
    listed = [
        video
        for name, split in (("train", "train"), ("test", "valid"))
        for video in _read_list(lists / f"{name}list{number:02d}.txt", split, classes)
    ]
    return _find(folder, listed, classes)


def _read_classes(path: Path) -> List[str]:
    """Read the classes from lines of ``NUMBER CLASS``; the numbers count from 1."""
    classes: List[str] = []
    for number, line in read_lines(path):
        words = line.split()
        if len(words) != 2 or words[0] != str(len(classes) + 1) or words[1] in classes:
            raise ValueError(f"{path}:{number}: expected {len(classes) + 1} and a class, each once, got {line!r}")
        classes.append(words[1])
    return classes


def _read_list(path: Path, split: str, classes: List[str]) -> Iterator[_Listed]:
    """Read lines of ``CLASS/VIDEO.avi NUMBER``; the lists of test videos leave the number out."""
    numbers = {name: str(number) for number, name in enumerate(classes, 1)}
    for line_number, line in read_lines(path):
        place = f"{path}:{line_number}"
        video, *number = line.split()
        label = video.split("/")[0]
        if "/" not in video or label not in numbers:
            raise ValueError(f"{place}: expected CLASS/VIDEO, of the {len(classes)} in {CLASS_NUMBERS}, got {video!r}")
        if number not in ([], [numbers[label]]):
            raise ValueError(f"{place}: expected {numbers[label]}, the number of {label}, got {' '.join(number)!r}")
        try:
            check_name(video)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
        yield _Listed(place, video, {"sequence": video, "split": split, "label": label})


def _find(folder: Path, listed: List[_Listed], classes: List[str]) -> Videos:
    videos = Videos([], [], classes, [])
    places: Dict[str, str] = {}
    for place, path, _ in listed:
        if path in places:
            raise ValueError(f"{place}: video {path!r} is in {places[path]} too")
        if not is_video(path):
            raise ValueError(
                f"{place}: expected a video, got {path!r} (files {', '.join(NOT_VIDEOS)} are read as texts or arrays)"
            )
        places[path] = place
    for name, (place, path, fields) in zip(_name_videos([path for _, path, _ in listed]), listed):
        try:
            check_name(name)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
        if (folder / path).is_file():
            videos.rows.append({**fields, "sequence": name})
            videos.files.append(folder / path)
        else:
            videos.missing.append(path)
    found = {row["split"] for row in videos.rows}
    for split in ("train", *(fields["split"] for _, _, fields in listed)):
        if split not in found:
            paths = [path for _, path, fields in listed if fields["split"] == split]
            raise ValueError(
                f"{folder}: expected videos of split {split!r}, {len(paths):,} are listed and none exists "
                f"({', '.join(paths[:2])}, ...)"
            )
    return videos


def _name_videos(paths: List[str]) -> List[str]:
    """A name for each of these paths, all different: the path without its suffix if no other video has that name."""
    names = [os.path.splitext(path)[0].strip() for path in paths]
    while len(set(names)) < len(names):
        counts = Counter(names)
        names = [path if counts[name] > 1 else name for name, path in zip(names, paths)]
    return names


def check_readable(videos: Videos, frame_rate: float) -> None:
    """Raise ValueError if no video of a split has a first frame that can be read, ImportError if PyAV is missing."""
    readable: Set[str] = set()
    errors: Dict[str, ValueError] = {}  # the first error of each split
    for row, file in show_progress(list(zip(videos.rows, videos.files)), "first frames", unit=" videos"):
        if row["split"] not in readable:
            try:
                next(read_frames(file, frame_rate))
                readable.add(row["split"])
            except ValueError as error:
                errors.setdefault(row["split"], error)
    for split, error in errors.items():
        if split not in readable:
            raise ValueError(f"expected videos of split {split!r}, none that exists can be read ({error})") from error
