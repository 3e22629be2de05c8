"""Small data in the form in which the MNIST database is published."""

import gzip

import numpy as np

NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def digits(train=100, test=40, seed=0):
    """Four uint8 arrays: noise images, [N, 28, 28], and labels, [N], of both parts."""
    rng = np.random.default_rng(seed)
    arrays = []
    for count in (train, test):
        arrays += [rng.integers(0, 256, (count, 28, 28), np.uint8), rng.integers(0, 10, count, np.uint8)]
    return arrays


def idx_bytes(array):
    """An uint8 array as the content of an IDX file."""
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def write_digits(folder, compress=False, names=NAMES, **sizes):
    """Write the four files, and return the arrays."""
    arrays = digits(**sizes)
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in zip(names, arrays):
        content = idx_bytes(array)
        (folder / f"{name}{'.gz' if compress else ''}").write_bytes(gzip.compress(content) if compress else content)
    return arrays
