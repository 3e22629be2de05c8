"""The MNIST database's images as sequences of pixels, or of rows (the Skip RNN paper, section 4.3)."""

from pathlib import Path
from typing import Optional, Tuple

import numpy as np

from .idx import read_images, read_labels
from .sequence import StoredDataset

SIDE = 28
PIXELS = SIDE * SIDE
CLASSES = 10


def read_database(folder: Path, part: str) -> Tuple[np.ndarray, np.ndarray]:
    """Images, uint8 [N, 784], and labels, uint8 [N], of a part of the database: ``train`` or ``t10k``.

    Raises ValueError, in one line that names the file, if a file does not exist or is not what it should be.
    """
    images_path = _find(folder, f"{part}-images", "idx3-ubyte")
    labels_path = _find(folder, f"{part}-labels", "idx1-ubyte")
    images, labels = read_images(images_path), read_labels(labels_path)
    if images.shape[1:] != (SIDE, SIDE):
        raise ValueError(f"{images_path}: expected images of {SIDE} x {SIDE} pixels, got {images.shape[1:]}")
    if len(images) != len(labels):
        raise ValueError(
            f"{labels_path}: expected a label for each of the {len(images):,} images in {images_path.name}, "
            f"got {len(labels):,}"
        )
    if labels.max() >= CLASSES:
        raise ValueError(f"{labels_path}: expected labels of 0 to {CLASSES - 1}, got {labels.max()}")
    return images.reshape(-1, PIXELS), labels


def _find(folder: Path, name: str, kind: str) -> Path:
    """The first file that exists; the database is published under several names.

    Folders of such a name are ignored, because some archives unpack to one beside the file.
    """
    names = [f"{name}{separator}{kind}{end}" for separator in "-." for end in ("", ".gz")]
    for file in names:
        if (folder / file).is_file():
            return folder / file
    raise ValueError(f"{folder}: expected the MNIST database's file {names[0]} (or {', '.join(names[1:])}), got none")


class MNISTDataset(StoredDataset):
    """Images as sequences: pixel by pixel, from left to right and from top to bottom, or row by row.

    Args:
        images: uint8 [N, 784].
        labels: uint8 [N].
        width: the number of pixels in a step, D: 1 or 28.
        permutation: an order of the 784 pixels, the same for all images, applied before they are cut into steps: the
            index in the image of each pixel of the sequence, [784]; None keeps the order.
        key, fixed: see :class:`StoredDataset`.
    """

    def __init__(
        self,
        images: np.ndarray,
        labels: np.ndarray,
        width: int,
        permutation: Optional[np.ndarray],
        key: Tuple[int, ...],
        fixed: bool,
    ):
        self.images = images
        self.labels = labels
        self.width = width
        self.permutation = permutation
        super().__init__(np.full(len(images), PIXELS // width), key, fixed)

    def read(self, index: int) -> Tuple[np.ndarray, int]:
        return as_sequence(scaled(self.images[index]), self.width, self.permutation), int(self.labels[index])


def scaled(pixels: np.ndarray) -> np.ndarray:
    """From 0..255 to 0..1, float32, as in the authors' program."""
    return pixels.astype(np.float32) / 255


def as_sequence(image: np.ndarray, width: int, permutation: Optional[np.ndarray]) -> np.ndarray:
    """An image [784] as steps [784 / width, width]; for the arguments see :class:`MNISTDataset`."""
    return (image if permutation is None else image[permutation]).reshape(-1, width)
