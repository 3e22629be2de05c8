"""Reads word2vec's files of word vectors; gensim, which reads the binary ones, is imported only for a file."""

import codecs
import logging
import os
from pathlib import Path
from typing import BinaryIO, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from ..reading import first_sentence

logger = logging.getLogger(__name__)

DECIMAL = b"0123456789.-+e \n"  # the bytes of a text file, apart from its words
MOST_OF_A_LINE = 2**16  # bytes; a vector of 1,000 numbers has up to 25,000 of them
LIMIT = 1000.0  # word vectors have components around 1; training could not start from a damaged file's huge ones


class _Header(NamedTuple):
    count: int  # of vectors
    is_binary: bool


def load_word_vectors(path: str, words: Sequence[str], dim: int) -> Dict[str, np.ndarray]:
    """The vectors, float32 [dim], of those ``words`` that the file has; its other vectors are dropped after reading.

    Of a word that occurs several times the first vector counts. Words that no dictionary can have are left out, with a
    warning that counts them: those that are cut inside a character, as word2vec's own program writes them, and in a
    text file those with spaces and lines that are too short.

    Args:
        path: a file in word2vec's binary or text format, perhaps compressed (.gz, .bz2).
        words: the words to look up.
        dim: the number of components that a vector must have.

    Raises:
        ValueError: the file can't be read, its vectors have another size, or the vector of one of ``words`` is damaged;
            the message is one line that names the file.
        ImportError: gensim is missing.
    """
    try:
        from gensim.models import KeyedVectors
        from gensim.utils import open as open_maybe_compressed
    except ImportError as error:
        raise ImportError(
            f"{path}: reading word vectors needs gensim ({error}); install it with: pip install 'skiprnn-plugin[text]'"
        ) from error
    if not Path(path).is_file():
        raise ValueError(f"{path}: no such file")
    try:
        with open_maybe_compressed(path, "rb") as file:
            header = _read_header(path, file, dim)
        if header.is_binary:
            vectors = KeyedVectors.load_word2vec_format(path, binary=True, unicode_errors="surrogateescape")
            found = {word: vectors[word].copy() for word in words if word in vectors.key_to_index}
            left_out = sum(map(_is_cut, vectors.key_to_index))
        else:
            with open_maybe_compressed(path, "rb") as file:
                found, left_out = _read_text(file, header.count, set(words), dim)
    except _WrongFile as error:
        raise ValueError(f"{path}: {error}") from error
    except Exception as error:  # a file can be damaged, or be something else, in any way
        raise ValueError(f"{path}: can't be read as word2vec's vectors ({first_sentence(error)})") from error
    for word, vector in found.items():
        if not (np.abs(vector) <= LIMIT).all():
            raise ValueError(f"{path}: expected numbers of at most {LIMIT:g}, got others in the vector of {word!r}")
    if left_out:
        logger.warning(f"{path}: left out {left_out:,} of {header.count:,} vectors, whose words can't be read")
    return {word: found[word] for word in words if word in found}


class _WrongFile(ValueError):
    """An error whose message already says what was expected of the file."""


def _read_header(path: str, file: BinaryIO, dim: int) -> _Header:
    """Raises :class:`_WrongFile` for vectors of another size than ``dim``, and for more vectors than fit the file."""
    count, size = _read_counts(file.readline(100).removeprefix(codecs.BOM_UTF8))
    start = file.read(MOST_OF_A_LINE)
    if size != dim:
        raise _WrongFile(f"expected vectors of {dim} numbers (--embedding-dim), got {size}")
    is_binary = not _is_text(start, dim)
    # gensim allocates as many vectors as the header says, even if the file is damaged. Compression makes a file at
    # most 1,000 times smaller.
    room = os.path.getsize(path) * (1000 if path.endswith((".gz", ".bz2")) else 1)
    if not 0 < count * size * (4 if is_binary else 2) <= room:
        raise _WrongFile(f"expected {count} vectors, as its first line says, got a file too short for them")
    return _Header(count, is_binary)


def _is_text(start: bytes, dim: int) -> bool:
    """Whether this, which follows the header, is text, even if it is damaged or begins with a long word."""
    numbers = start.split(b"\n", 1)[0].split()[-dim:]
    start = start[:1000]
    is_decimal = all(byte in DECIMAL for number in numbers for byte in number)
    return (len(numbers) == dim and is_decimal) or 2 * sum(byte in DECIMAL for byte in start) >= len(start)


def _read_counts(line: bytes) -> List[int]:
    counts = line.split()
    if len(counts) != 2 or not all(map(bytes.isdigit, counts)):
        raise ValueError("its first line is not two numbers, the count of words and of a vector's components")
    return list(map(int, counts))


def _read_text(file: BinaryIO, count: int, words: set, dim: int) -> Tuple[Dict[str, np.ndarray], int]:
    """The vectors of these words, and how many lines have no word that a dictionary can have.

    gensim refuses the whole file for one such line. Raises ValueError if the file has fewer lines than ``count``, or if
    a vector of one of the words is not ``dim`` numbers. More lines are read too, as programs that add words may leave
    the header as it was.
    """
    found: Dict[str, np.ndarray] = {}
    file.readline()  # the header
    lines_read = left_out = 0
    for line in filter(bytes.strip, file):
        lines_read += 1
        stored, *numbers = line.strip().rsplit(None, dim)
        word = stored.decode("utf-8", "surrogateescape")
        if len(numbers) < dim or len(stored.split()) > 1 or _is_cut(word):
            left_out += 1
        elif word in words and word not in found:
            try:
                found[word] = np.array(numbers, dtype=np.float32)
            except ValueError as error:
                raise _WrongFile(f"expected {dim} numbers in the vector of {word!r} ({error})") from error
    if lines_read < count:
        raise EOFError(f"unexpected end of input: expected {count} lines, as its first line says, got {lines_read}")
    return found, left_out


def _is_cut(word: str) -> bool:
    """Whether a word that was decoded with ``surrogateescape`` has bytes that are not UTF-8."""
    try:
        word.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
