"""The MNIST database: its four files, and images as sequences."""

import random

import numpy as np
import pytest

import skiprnn_plugin  # noqa: F401
from skiprnn_plugin.data.mnist import MNISTDataset, read_database

from ..idx_files import NAMES, digits, idx_bytes, write_digits

IMAGES, LABELS = digits()[:2]


@pytest.mark.parametrize("compress", [False, True], ids=["raw", "gzip"])
@pytest.mark.parametrize("names", [NAMES, [name.replace("-idx", ".idx") for name in NAMES]], ids=["-", "."])
def test_reads_both_parts(tmp_path, names, compress):
    arrays = write_digits(tmp_path, compress, names)
    got = [*read_database(tmp_path, "train"), *read_database(tmp_path, "t10k")]
    assert [array.shape for array in got] == [(100, 784), (100,), (40, 784), (40,)]
    for array, expected in zip(got, arrays):
        assert array.dtype == np.uint8 and (array == expected.reshape(array.shape)).all()


@pytest.mark.parametrize(
    "name,array,message",
    [
        (NAMES[0], IMAGES.reshape(100, 14, 56), r"expected images of 28 x 28 pixels, got \(14, 56\)"),
        (NAMES[1], LABELS[1:], f"expected a label for each of the 100 images in {NAMES[0]}, got 99"),
        (NAMES[1], np.full(100, 10, np.uint8), "expected labels of 0 to 9, got 10"),
    ],
    ids=["shape", "counts", "labels"],
)
def test_files_that_do_not_fit(tmp_path, name, array, message):
    write_digits(tmp_path)
    (tmp_path / name).write_bytes(idx_bytes(array))
    with pytest.raises(ValueError, match=f"^{tmp_path / name}: {message}$"):
        read_database(tmp_path, "train")


@pytest.mark.parametrize("missing", NAMES[2:])
def test_a_missing_file(tmp_path, missing):
    write_digits(tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(ValueError, match=f"^{tmp_path}: expected the MNIST database's file {missing} .*, got none$"):
        read_database(tmp_path, "t10k")


def mutate(content, rng):
    """The content with a byte changed, a few bytes removed or inserted, or its end cut off."""
    place = rng.randrange(20 if rng.random() < 0.5 else len(content))
    few = rng.randint(1, 20)
    return rng.choice(
        [
            content[:place] + bytes([rng.randrange(256)]) + content[place + 1 :],
            content[:place] + content[place + few :],
            content[:place] + rng.randbytes(few) + content[place:],
            content[:place],
        ]
    )


@pytest.mark.parametrize("compress", [False, True], ids=["raw", "gzip"])
def test_a_mutated_file_is_read_right_or_refused(tmp_path, compress):
    """In an uncompressed file a changed byte after the header gives another image or label; gzip has a checksum."""
    arrays = write_digits(tmp_path, compress, train=10, test=5)
    refused = 0
    for seed in range(100):
        rng = random.Random(seed)
        which = rng.randrange(4)
        path = tmp_path / (NAMES[which] + ".gz" * compress)
        content = path.read_bytes()
        mutated = mutate(content, rng)
        path.write_bytes(mutated)
        try:
            got = read_database(tmp_path, "train" if which < 2 else "t10k")[which % 2]
        except ValueError as error:
            assert str(error).startswith(f"{tmp_path}/") and "-idx" in str(error) and "\n" not in str(error)
            refused += 1
        else:
            header = 4 + 4 * arrays[which].ndim
            assert compress or (len(mutated) == len(content) and mutated[:header] == content[:header])
            assert got.tobytes() == (arrays[which].tobytes() if compress else mutated[header:])
        path.write_bytes(content)
    assert 50 < refused < 100


@pytest.mark.parametrize("width", [1, 28])
@pytest.mark.parametrize("permuted", [False, True], ids=["in order", "permuted"])
def test_sequences(width, permuted):
    order = np.random.default_rng(3).permutation(784) if permuted else np.arange(784)
    images = IMAGES.reshape(100, 784)
    data = MNISTDataset(images, LABELS, width, order if permuted else None, key=(1, 2), fixed=True)
    item = data[7]
    assert item["x"].dtype == np.float32 and item["x"].shape == (784 // width, width)
    assert item["target"] == LABELS[7] and len(data) == 100 and data.size(7) == 784 // width
    np.testing.assert_allclose(item["x"].reshape(-1) * 255, images[7][order], rtol=1e-6)
