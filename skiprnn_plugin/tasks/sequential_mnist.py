"""Sequential MNIST: tell which digit an image shows, reading it pixel by pixel."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import numpy as np
from fairseq.tasks import register_task

from ..arguments import check_count, check_size
from ..data.mnist import CLASSES, PIXELS, SIDE, MNISTDataset, as_sequence, read_database, scaled
from ..data.sequence import split_key
from .presentation import Drawing, Inputs
from .sequence import SequenceTask, SequenceTaskConfig


@dataclass
class SequentialMNISTConfig(SequenceTaskConfig):
    data_dir: str = field(
        default="", metadata={"help": "folder with the four files of the MNIST database, compressed by gzip or not"}
    )
    valid_size: int = field(
        default=5000, metadata={"help": "number of images held out for validation: the last of the training files"}
    )
    rows: bool = field(default=False, metadata={"help": "read 28 rows of 28 pixels instead of 784 single pixels"})
    permuted: bool = field(
        default=False,
        metadata={"help": "permute the pixels of all images alike (with --rows, before they are cut into rows)"},
    )
    permutation_seed: int = field(
        default=0, metadata={"help": "SEED of --permuted: numpy.random.default_rng(SEED).permutation(784)"}
    )


@register_task("sequential_mnist", dataclass=SequentialMNISTConfig)
class SequentialMNISTTask(SequenceTask):
    """The splits ``train`` and ``valid`` come from the database's training files, ``test`` from its test files. The
    files are read when a split is loaded.

    Attributes:
        permutation: the index in the image of each pixel of the sequence, int64 [784]; None keeps the image's order.
    """

    output_size = CLASSES
    predicts = "classes"
    class_names = tuple(map(str, range(CLASSES)))
    inputs = Inputs(("numbers",))
    permutation: Optional[np.ndarray] = None

    def __init__(self, cfg: SequentialMNISTConfig, **kwargs):
        super().__init__(cfg, **kwargs)
        check_size("--valid-size", cfg.valid_size)
        check_count("--permutation-seed", cfg.permutation_seed)
        self.input_size = SIDE if cfg.rows else 1
        if cfg.permuted:
            self.permutation = np.random.default_rng(cfg.permutation_seed).permutation(PIXELS)

    @property
    def drawing(self) -> Drawing:
        return Drawing("images", spread=False, pixel_order=self.permutation)

    def load_dataset(self, split, combine=False, **kwargs):
        """Load a split. Raises ValueError if the split or a file does not exist, or if a file is wrong."""
        cfg = self.cfg
        if split not in ("train", "valid", "test"):
            raise ValueError(f"split: expected train, valid or test, got {split!r}")
        if not os.path.isdir(cfg.data_dir):
            raise ValueError(
                f"--data-dir: expected a folder with the MNIST database's files, got {cfg.data_dir!r}{self.data_moved}"
            )
        images, labels = read_database(Path(cfg.data_dir), "t10k" if split == "test" else "train")
        if split != "test":
            size = len(images) - cfg.valid_size
            if size < 1:
                raise ValueError(
                    f"--valid-size: expected fewer than the {len(images):,} images of the training files, "
                    f"got {cfg.valid_size:,}"
                )
            part = slice(size) if split == "train" else slice(size, None)
            images, labels = images[part], labels[part]
        key, fixed = split_key(split, cfg.seed), not self.trains_on(split)
        self.datasets[split] = MNISTDataset(images, labels, self.input_size, self.permutation, key=key, fixed=fixed)

    def encode(self, raw):
        """Turn an image, [28, 28] or [784], of integers 0 to 255 or floats 0 to 1, into float32 [T, input_size]."""
        image = np.asarray(raw)
        if image.shape not in ((SIDE, SIDE), (PIXELS,)):
            raise ValueError(f"image: expected shape ({SIDE}, {SIDE}) or ({PIXELS},), got {image.shape}")
        if image.dtype.kind not in "iuf":
            raise ValueError(f"image: expected integers or floats, got {image.dtype}")
        kind, most = ("floats", 1) if image.dtype.kind == "f" else ("integers", 255)
        if not ((image >= 0) & (image <= most)).all():  # nan too
            raise ValueError(f"image: expected {kind} of 0 to {most}, got {image.min()} to {image.max()}")
        pixels = image.astype(np.float32) if kind == "floats" else scaled(image)
        return as_sequence(pixels.reshape(PIXELS), self.input_size, self.permutation)
