"""Reads the Large Movie Review Dataset (Maas et al., ACL 2011) from its folder ``aclImdb`` or from its archive."""

import gzip
import itertools
import os
import re
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from ..reading import describe_os_error, is_hidden, show_progress

TOP = "aclImdb"
SPLITS = ("train", "test")
LABELS = ("neg", "pos")

_NAME = re.compile(r"([0-9]{1,9})_([0-9]{1,2})\.txt")  # ID_RATING.txt
_BLOCK = 512  # bytes; tar files consist of such blocks
# The errors that gzip and tarfile raise for a damaged file
_DAMAGE = (OSError, EOFError, zlib.error, tarfile.TarError, ValueError, OverflowError)


class Review(NamedTuple):
    """One review; the reviews of a split sort by label, then by number.

    Attributes:
        label: one of ``LABELS``.
        id: the review's number, unique within its split and label.
        name: the path of its file, such as ``train/pos/0_9.txt``.
        text: the text of its file, unchanged.
    """

    label: str
    id: int
    name: str
    text: str


def read_aclimdb(source: Path) -> Dict[str, List[Review]]:
    """The labelled reviews of each of ``SPLITS``, sorted; the order in which they are stored does not matter.

    Args:
        source: the folder that holds ``{train,test}/{neg,pos}/ID_RATING.txt``, or a ``.tar.gz`` with these below
            ``aclImdb/``, which is not unpacked. Other files, and hidden ones, are ignored.

    Raises:
        ValueError: ``source`` does not exist or can't be read; the archive is damaged, or holds a link, or a path that
            leads out of it; a file in the four folders is not a review, is empty, is not UTF-8, or has the same number
            as another; one of the folders has no reviews.
    """
    try:
        if not source.exists():
            raise ValueError(f"{source}: no such file or folder")
        files = _in_folder(source) if source.is_dir() else _in_archive(source)
    except OSError as error:  # such as a name that is too long
        raise ValueError(describe_os_error(error)) from error
    found: Dict[Tuple[str, str], Dict[int, Review]] = {(split, label): {} for split in SPLITS for label in LABELS}
    for name, content in show_progress(files, str(source), unit=" reviews"):
        split, label, file = name.split("/", 2)
        try:
            review = Review(label, _number(file), name, _text(content))
        except ValueError as error:
            raise ValueError(f"{source}: {name!r}: {error}") from error
        other = found[split, label].setdefault(review.id, review)
        if other is not review:
            raise ValueError(f"{source}: {name!r} and {other.name!r}: two reviews with the same number")
    for (split, label), reviews in found.items():
        if not reviews:
            raise ValueError(f"{source}: no reviews in {split}/{label}; expected the folder {TOP} or its .tar.gz")
    return {split: sorted(review for label in LABELS for review in found[split, label].values()) for split in SPLITS}


def _number(file: str) -> int:
    match = _NAME.fullmatch(file)
    if not match:
        raise ValueError("expected a name ID_RATING.txt")
    return int(match[1])


def _text(content: Optional[bytes]) -> str:
    if content is None:
        raise ValueError("expected a plain file")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 ({error.reason}, byte {error.start})") from error
    if not text.strip():
        raise ValueError("empty")
    return text


def _in_folder(source: Path) -> Iterator[Tuple[str, Optional[bytes]]]:
    """The entries of the four folders: a name such as ``train/pos/0_9.txt``, and the content, None if not a file."""
    try:
        for split, label in itertools.product(SPLITS, LABELS):
            folder = source / split / label
            files = sorted(os.listdir(folder)) if folder.is_dir() else []
            for file in itertools.filterfalse(is_hidden, files):
                path = folder / file
                yield f"{split}/{label}/{file}", path.read_bytes() if path.is_file() else None
    except OSError as error:
        raise ValueError(f"{source}: can't be read ({error})") from error


def _in_archive(source: Path) -> Iterator[Tuple[str, Optional[bytes]]]:
    """The entries of the four folders in an archive, as :func:`_in_folder` gives them."""
    for member, content in _members(source):
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(f"{source}: {member.name!r}: the path leads out of the archive")
        if not (member.isreg() or member.isdir()):
            raise ValueError(f"{source}: {member.name!r}: expected only files and folders, no links or devices")
        top, split, label = path.parts[:3] if len(path.parts) > 3 else ("", "", "")
        if top == TOP and split in SPLITS and label in LABELS and not any(map(is_hidden, path.parts)):
            yield "/".join(path.parts[1:]), content


def _members(source: Path) -> Iterator[Tuple[tarfile.TarInfo, Optional[bytes]]]:
    """All members, each with its content, or None if it is not a plain file.

    The bytes after the last member are read and checked too. This makes gzip compare its checksum, and prevents
    taking a member that tarfile can't read for the end of the archive.
    """
    try:
        with gzip.open(source) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
            for member in archive:
                plain = member.isreg() and not member.issparse()
                yield member, archive.extractfile(member).read() if plain else None
            stream.seek(archive.offset)
            rest = stream.read()
            if len(rest) < _BLOCK or rest.strip(b"\0"):
                raise tarfile.ReadError(f"no member and no end at byte {archive.offset}")
    except _DAMAGE as error:
        raise ValueError(f"{source}: can't be read as a .tar.gz ({error})") from error
