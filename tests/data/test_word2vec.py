"""Word vectors from word2vec's files, whole and damaged."""

import codecs
import gzip
import random
import re
import sys

import numpy as np
import pytest

from skiprnn_plugin.data.word2vec import load_word_vectors

from ..tiny_texts import damaged

WORDS = ["the", "film", "naïve", "don't", "</s>"]
VECTORS = np.random.default_rng(0).normal(size=(len(WORDS), 7)).astype(np.float32)
HEADER = b"5 7\n"
# Files exist with and without a line break after each vector
BINARY = HEADER + b"".join(word.encode() + b" " + vector.tobytes() for word, vector in zip(WORDS, VECTORS))
BINARY_LINES = HEADER + b"".join(w.encode() + b" " + vector.tobytes() + b"\n" for w, vector in zip(WORDS, VECTORS))
TEXT = HEADER + "".join(f"{word} {' '.join(map(repr, map(float, v)))}\n" for word, v in zip(WORDS, VECTORS)).encode()
FORMATS = {"binary": BINARY, "binary lines": BINARY_LINES, "text": TEXT}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "vectors.bin"


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_all_formats(tmp_path, name, suffix):
    path = tmp_path / f"vectors{suffix}"
    path.write_bytes(gzip.compress(FORMATS[name]) if suffix else FORMATS[name])
    found = load_word_vectors(str(path), ["naïve", "movie", "the", "don't"], 7)
    assert list(found) == ["naïve", "the", "don't"]
    for word, vector in found.items():
        np.testing.assert_array_equal(vector, VECTORS[WORDS.index(word)])
        assert vector.base is None and vector.dtype == np.float32  # not a view, which would keep all vectors in memory


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "can't be read as word2vec's vectors .*its first line is not two numbers"),
        (TEXT[len(HEADER) :], "can't be read as word2vec's vectors .*its first line is not two numbers"),  # GloVe's
        (b"5 300" + BINARY[3:], r"expected vectors of 7 numbers \(--embedding-dim\), got 300"),
        (BINARY[:-1], "expected 5 vectors|unexpected end of input"),
        (b"99999999999 7\n" + BINARY[4:], "expected 99999999999 vectors, as its first line says, got a file too short"),
        (b"6 7\n" + TEXT[4:], "can't be read as word2vec's vectors .*unexpected end of input"),
        (TEXT.replace(b" 0.12573", b" 0.12573x", 1), "expected 7 numbers in the vector of 'the' .*0.12573x"),
        (
            re.sub(rb" -?0.\d+", b" nan", TEXT, count=1),
            "expected numbers of at most 1000, got others in the vector of 'the'",
        ),
        (
            re.sub(rb" -?0.\d+", b" 1e9", TEXT, count=1),
            "expected numbers of at most 1000, got others in the vector of 'the'",
        ),
        (gzip.compress(BINARY), "can't be read as word2vec's vectors"),
    ],
    ids=["empty", "no header", "size", "cut off", "count", "count, text", "no number", "nan", "large", "compressed"],
)
def test_errors_name_the_file(path, content, message):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        load_word_vectors(str(path), WORDS, 7)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)


CUT = "naïve".encode()[:3]  # inside a character


def as_text(word, numbers=VECTORS[0]):
    return word + b" " + " ".join(map(repr, map(float, numbers))).encode() + b"\n"


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(
    "start, others",
    [
        (BINARY, [CUT + b" " + VECTORS[0].tobytes()]),
        (BINARY_LINES, [CUT[:-1] + byte + b" " + VECTORS[0].tobytes() + b"\n" for byte in (b"\xc3", b"\xe2")]),
        (TEXT, [as_text(CUT)]),
        (TEXT, [as_text(b"new york"), as_text(b"the film"), as_text(b"the nan")]),
        (TEXT, [as_text(b"the", VECTORS[0][:3]), b"film\n", as_text(b"")]),
    ],
    ids=["binary", "binary lines", "text", "text with spaces", "text with short lines"],
)
def test_words_that_can_not_be_read_are_left_out(tmp_path, caplog, start, others, suffix):
    """They come first, and the rest is as in a file without them."""
    path, count = tmp_path / f"vectors{suffix}", len(WORDS) + len(others)
    content = f"{count} 7\n".encode() + b"".join(others) + start[len(HEADER) :]
    path.write_bytes(gzip.compress(content) if suffix else content)
    found = load_word_vectors(str(path), WORDS, 7)
    assert list(found) == WORDS
    np.testing.assert_array_equal(list(found.values()), VECTORS)
    warning = f"{path}: left out {len(others)} of {count} vectors, whose words can't be read"
    assert [record.getMessage() for record in caplog.records if "skiprnn" in record.name] == [warning]


LONG = "फिल्म".encode() * 100


@pytest.mark.parametrize(
    "content",
    [
        codecs.BOM_UTF8 + TEXT,
        b"6 7\n" + as_text(LONG, [1] * 7) + TEXT[len(HEADER) :],
        b"3" + TEXT[1:],
    ],
    ids=["mark of Windows", "long first word", "more lines than the header says"],
)
def test_strange_text_files(path, content):
    path.write_bytes(content)
    found = load_word_vectors(str(path), WORDS, 7)
    np.testing.assert_array_equal([found[word] for word in WORDS], VECTORS)


def test_lines_of_other_words_may_hold_anything(path, caplog):
    others = [as_text(b"movie").replace(b"1", b"x"), b"\n", as_text("फिल्म".encode()), as_text("a\xa0b".encode())]
    path.write_bytes(b"9 7\n" + b"".join(others) + TEXT[len(HEADER) :].replace(b" ", b"\t") + as_text(b"the", [2] * 7))
    found = load_word_vectors(str(path), ["the", "फिल्म"], 7)
    np.testing.assert_array_equal(list(found.values()), VECTORS[[0, 0]])
    assert not [record for record in caplog.records if "skiprnn" in record.name]


def test_no_file_and_no_gensim(path, monkeypatch):
    with pytest.raises(ValueError, match="vectors.bin: no such file"):
        load_word_vectors(str(path), WORDS, 7)
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(ImportError, match="vectors.bin: reading word vectors needs gensim .*skiprnn-plugin"):
        load_word_vectors(str(path), WORDS, 7)


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files(tmp_path, name):
    """A damaged file gives vectors that training can start from, or one error that names the file."""
    outcomes = set()
    for seed in range(100):
        path = tmp_path / f"vectors{seed}"
        path.write_bytes(damaged(FORMATS[name], random.Random(seed)))
        try:
            found = load_word_vectors(str(path), WORDS, 7)
        except ValueError as error:
            assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
            outcomes.add("error")
        else:
            assert all(vector.shape == (7,) and np.abs(vector).max() <= 1000 for vector in found.values())
            outcomes.add("vectors")
    assert outcomes == {"error", "vectors"}
