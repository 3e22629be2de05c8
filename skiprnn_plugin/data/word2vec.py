"""Word vectors from a file of word2vec's, through gensim, which is imported only when there is one to read."""

import os
from pathlib import Path
from typing import Dict, Sequence

import numpy as np

from ..cli.command import first_sentence

LARGEST = 1000.0  # word vectors have components around 1; training could not start from what a damaged file may hold


def load_word_vectors(path: str, words: Sequence[str], dim: int) -> Dict[str, np.ndarray]:
    """Vectors, float32 [dim], of those ``words`` that have one; the others' are dropped after reading.

    Args:
        path: word2vec's binary or text format, perhaps compressed (.gz, .bz2).
        words: what to look up.
        dim: numbers that a vector is to have.

    Raises ValueError, in one line that names the file, if it can't be read or its vectors have another size; and
    ImportError without gensim.
    """
    try:
        from gensim.models import KeyedVectors
    except ImportError as error:
        raise ImportError(
            f"{path}: reading word vectors needs gensim ({error}); install it with: pip install 'skiprnn-plugin[text]'"
        ) from error
    if not Path(path).is_file():
        raise ValueError(f"{path}: no such file")
    binary = _check_header(path, dim)
    try:
        vectors = KeyedVectors.load_word2vec_format(path, binary=binary)
        found = {word: vectors[word].copy() for word in words if word in vectors.key_to_index}
    except Exception as error:  # a file can be damaged, or be something else, in any way
        raise _unreadable(path, error) from error
    for word, vector in found.items():
        if not (np.abs(vector) <= LARGEST).all():
            raise ValueError(f"{path}: expected numbers of at most {LARGEST:g}, the vector of {word!r} has others")
    return found


def _check_header(path: str, dim: int) -> bool:
    """Whether the file is binary; ValueError for a vector size other than ``dim`` or more words than it has room for."""
    from gensim.utils import open as open_maybe_compressed

    try:
        with open_maybe_compressed(path, "rb") as file:
            count, size = map(int, file.readline(100).split())
            first = file.readline(100 * dim + 1000).rstrip().split(b" ")
    except Exception as error:
        raise _unreadable(path, error) from error
    if size != dim:
        raise ValueError(f"{path}: expected vectors of {dim} numbers (--embedding-dim), it has {size}")
    binary = len(first) != 1 + size or not all(map(_is_number, first[1:]))
    bytes_per_number = 4 if binary else 2
    # gensim makes room for all words at once, as many as a damaged file may say; compression saves at most 1,000 times
    if not 0 < count * size * bytes_per_number <= os.path.getsize(path) * (1 if _is_plain(path) else 1000):
        raise ValueError(f"{path}: expected {count} vectors, as it says itself, it is too short for them")
    return binary


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_plain(path: str) -> bool:
    return not path.endswith((".gz", ".bz2", ".xz", ".zst"))


def _unreadable(path: str, error: Exception) -> ValueError:
    return ValueError(f"{path}: can't be read as word2vec's vectors ({first_sentence(error)})")
