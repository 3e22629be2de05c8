"""Reads word2vec's files of word vectors with gensim, which is imported only when there is a file to read."""

import os
from pathlib import Path
from typing import Dict, List, Sequence

import numpy as np

from ..reading import first_sentence

DECIMAL = b"0123456789.-+e \n"  # the bytes of a text file, apart from its words
LARGEST = 1000.0  # word vectors have components around 1; training could not start from a damaged file's huge ones


def load_word_vectors(path: str, words: Sequence[str], dim: int) -> Dict[str, np.ndarray]:
    """The vectors, float32 [dim], of those ``words`` that the file has; its other vectors are dropped after reading.

    Args:
        path: a file in word2vec's binary or text format, perhaps compressed (.gz, .bz2).
        words: the words to look up.
        dim: the number of components that a vector must have.

    Raises:
        ValueError: the file can't be read or its vectors have another size; the message is one line that names it.
        ImportError: gensim is missing.
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
            raise ValueError(f"{path}: expected numbers of at most {LARGEST:g}, got others in the vector of {word!r}")
    return found


def _check_header(path: str, dim: int) -> bool:
    """Whether the file is binary.

    Raises ValueError if the vectors have another size than ``dim``, or the header says more words than fit the file.
    """
    from gensim.utils import open as open_maybe_compressed

    try:
        with open_maybe_compressed(path, "rb") as file:
            count, size = _read_counts(file.readline(100))
            start = file.read(1000)
    except Exception as error:
        raise _unreadable(path, error) from error
    if size != dim:
        raise ValueError(f"{path}: expected vectors of {dim} numbers (--embedding-dim), got {size}")
    binary = 2 * sum(byte in DECIMAL for byte in start) < len(start)  # even if a text file is damaged here
    # gensim allocates as many vectors as the header says, even if the file is damaged. Compression makes a file at
    # most 1,000 times smaller.
    room = os.path.getsize(path) * (1000 if path.endswith((".gz", ".bz2")) else 1)
    if not 0 < count * size * (4 if binary else 2) <= room:
        raise ValueError(f"{path}: expected {count} vectors, as its first line says, got a file too short for them")
    return binary


def _read_counts(line: bytes) -> List[int]:
    counts = line.split()
    if len(counts) != 2 or not all(map(bytes.isdigit, counts)):
        raise ValueError("its first line is not two numbers, the count of words and of a vector's components")
    return list(map(int, counts))


def _unreadable(path: str, error: Exception) -> ValueError:
    return ValueError(f"{path}: can't be read as word2vec's vectors ({first_sentence(error)})")
