"""IDX files are read, or raise one error that names the file."""

import gzip
import tracemalloc

import numpy as np
import pytest

import skiprnn_plugin  # noqa: F401
from skiprnn_plugin.data.idx import read_images, read_labels

from ..idx_files import digits, idx_bytes

IMAGES, LABELS = digits()[:2]


@pytest.mark.parametrize("compress", [False, True], ids=["raw", "gzip"])
@pytest.mark.parametrize("name", ["file", "file.gz"])
def test_what_a_file_holds_counts_and_not_its_name(tmp_path, name, compress):
    """Some programs unpack gzip while they download, and keep the name."""
    for read, array in ((read_images, IMAGES), (read_labels, LABELS)):
        content = idx_bytes(array)
        (tmp_path / name).write_bytes(gzip.compress(content) if compress else content)
        got = read(tmp_path / name)
        assert got.dtype == np.uint8 and got.shape == array.shape and (got == array).all()


def huge_counts(content):
    return content[:4] + b"\xff" * 12 + content[16:]


# The function that reads, the damage to a good file, and the error's message
CASES = {
    "empty": (read_images, lambda b: b"", "expected images with a header of 16 bytes, got 0 in all"),
    "half a header": (read_images, lambda b: b[:15], "expected images with a header of 16 bytes, got 15 in all"),
    "only a magic number": (read_labels, lambda b: b[:4], "expected labels with a header of 8 bytes, got 4 in all"),
    "a byte short": (read_images, lambda b: b[:-1], "expected 78,400 bytes after .* got only 78,399"),
    "cut off": (read_labels, lambda b: b[:20], r"expected 100 bytes after the header, .* \(100,\) say, got only 12"),
    "a byte more": (read_labels, lambda b: b + b"\0", "expected 100 bytes after the header, .* say, got more"),
    "huge counts": (read_images, huge_counts, r"\(4294967295, 4294967295, 4294967295\) say, got only 78,400"),
    "labels": (read_images, lambda b: idx_bytes(LABELS), r"expected images \(magic number 2051\), got 2049: labels"),
    "images": (read_labels, lambda b: idx_bytes(IMAGES), r"expected labels \(magic number 2049\), got 2051: images"),
    "a picture": (read_labels, lambda b: b"\x89PNG" + b, "expected labels .* got 2303741511: not a file of the MNIST"),
    "no images": (read_images, lambda b: idx_bytes(IMAGES[:0]), r"expected images, got none: .* \(0, 28, 28\)"),
    "no labels": (read_labels, lambda b: idx_bytes(LABELS[:0]), r"expected labels, got none: .* \(0,\)"),
}


@pytest.mark.parametrize("compress", [False, True], ids=["raw", "gzip"])
@pytest.mark.parametrize("case", CASES)
def test_files_that_are_something_else(tmp_path, case, compress):
    read, damage, message = CASES[case]
    content = damage(idx_bytes(IMAGES if read is read_images else LABELS))
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(content) if compress else content)
    with pytest.raises(ValueError, match=f"^{path}: .*{message}"):
        read(path)


@pytest.mark.parametrize(
    "damage",
    [lambda b: b[:-20], lambda b: b[:5], lambda b: b[:-8] + bytes(8), lambda b: b[:40] + b[60:], lambda b: b + b"more"],
    ids=["cut off", "half a header", "wrong checksum", "bytes missing", "bytes behind the end"],
)
def test_damaged_gzip(tmp_path, damage):
    path = tmp_path / "file"
    path.write_bytes(damage(gzip.compress(idx_bytes(LABELS))))
    with pytest.raises(ValueError, match=f"^{path}: expected labels in a gzip file, got a damaged one"):
        read_labels(path)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ValueError, match=f"^{tmp_path}: can't be read .Is a directory.$"):
        read_images(tmp_path)
    with pytest.raises(ValueError, match=f"^{tmp_path}/no: can't be read .No such file or directory.$"):
        read_images(tmp_path / "no")


@pytest.mark.parametrize("compress", [False, True], ids=["raw", "gzip"])
def test_counts_that_a_file_does_not_hold_take_no_memory(tmp_path, compress):
    content = huge_counts(idx_bytes(IMAGES))
    (tmp_path / "file").write_bytes(gzip.compress(content) if compress else content)
    tracemalloc.start()
    with pytest.raises(ValueError, match="got only 78,400$"):
        read_images(tmp_path / "file")
    assert tracemalloc.get_traced_memory()[1] < 4e6
    tracemalloc.stop()
