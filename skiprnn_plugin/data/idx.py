"""Reads files in the IDX format, in which the MNIST database (LeCun, Cortes and Burges) is published."""

import gzip
import math
import zlib
from pathlib import Path
from typing import BinaryIO, Tuple

import numpy as np

# Magic numbers: two zero bytes, 8 for unsigned bytes, the number of dimensions
KINDS = {2051: "images", 2049: "labels"}
GZIP = b"\x1f\x8b"
BLOCK = 2**20


def read_images(path: Path) -> np.ndarray:
    """Pixels from 0 to 255, uint8 [N, rows, columns]. Raises ValueError as :func:`read_labels` does."""
    return _read(path, 2051)


def read_labels(path: Path) -> np.ndarray:
    """Labels, uint8 [N].

    The file may be compressed by gzip, whatever its name says. Raises ValueError, in one line that names the file, if
    it can't be read, is damaged, is empty or holds anything else.
    """
    return _read(path, 2049)


def _read(path: Path, magic: int) -> np.ndarray:
    try:
        with open(path, "rb") as file:
            compressed = file.read(2) == GZIP
            file.seek(0)
            if not compressed:
                return _parse(path, file, magic)
            with gzip.open(file) as content:
                return _parse(path, content, magic)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path}: expected {KINDS[magic]} in a gzip file, got a damaged one ({error})") from error
    except OSError as error:
        raise ValueError(f"{path}: can't be read ({error.strerror})") from error


def _parse(path: Path, file: BinaryIO, magic: int) -> np.ndarray:
    shape = _read_shape(path, file, magic)
    size = math.prod(shape)
    data = _read_up_to(file, size + 1)
    if len(data) != size:
        found = f"only {len(data):,}" if len(data) < size else "more"
        raise ValueError(f"{path}: expected {size:,} bytes after the header, as its counts {shape} say, got {found}")
    if size == 0:
        raise ValueError(f"{path}: expected {KINDS[magic]}, got none: its counts are {shape}")
    return np.frombuffer(data, np.uint8).reshape(shape)


def _read_shape(path: Path, file: BinaryIO, magic: int) -> Tuple[int, ...]:
    """The counts in the header, all of which is big-endian."""
    length = 4 + 4 * (magic & 0xFF)
    header = _read_up_to(file, length)
    numbers = [int(number) for number in np.frombuffer(header[: len(header) // 4 * 4], ">u4")]
    if numbers and numbers[0] != magic:
        found = KINDS.get(numbers[0], "not a file of the MNIST database")
        raise ValueError(f"{path}: expected {KINDS[magic]} (magic number {magic}), got {numbers[0]}: {found}")
    if len(header) < length:
        raise ValueError(f"{path}: expected {KINDS[magic]} with a header of {length} bytes, got {len(header)} in all")
    return tuple(numbers[1:])


def _read_up_to(file: BinaryIO, count: int) -> bytes:
    """Read in blocks, so that a damaged header with huge counts takes no more memory than the file has."""
    blocks = []
    while count > 0 and (block := file.read(min(count, BLOCK))):
        blocks.append(block)
        count -= len(block)
    return b"".join(blocks)
