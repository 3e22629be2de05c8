"""The common part of the tasks on stored features."""

import math
import zlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import List, Optional, Sequence, Tuple

import numpy as np

from ..arguments import check_choice
from ..data.features import STATISTICS, FeatureDataset, FeatureStore, Frames, read_statistics
from ..data.fit import Fit
from ..data.manifest import CLASSES, MANIFEST, Item, check_labels, find_labels, read_classes, read_manifest
from ..data.sequence import split_key
from .presentation import Inputs
from .sequence import SequenceTask, SequenceTaskConfig, check_positive


@dataclass
class FeatureTaskConfig(SequenceTaskConfig):
    data_dir: str = field(
        default="",
        metadata={
            "help": "folder made by skiprnn-prepare features or video; or a folder with manifest.tsv and a file "
            "NAME.npy, [steps, features], for each sequence"
        },
    )
    sequence_length: Optional[int] = field(
        default=None,
        metadata={"help": "steps of a sequence; longer sequences are cropped (default: sequences keep their lengths)"},
    )
    crop: str = field(default="head", metadata={"help": "which end of a longer sequence is kept: head or tail"})
    padding: str = field(
        default="data",
        metadata={
            "help": "data: every sequence has --sequence-length steps, and the model reads the zeros at the end of a "
            "shorter sequence like other steps; masked: shorter sequences stay short"
        },
    )
    normalize: bool = field(
        default=False,
        metadata={"help": "normalise each feature by its mean and standard deviation over the split train"},
    )
    encoder_flops: float = field(
        default=0.0,
        metadata={
            "help": "multiply-accumulates that it takes to compute the features of a step, which a skipped step saves; "
            "added to those of an update in the logged flops (3.8e9 for ResNet-50, 1.53e10 for VGG-16)"
        },
    )


class FeatureTask(SequenceTask):
    """A task on a folder of features. A subclass names the manifest's ``columns`` that it needs, and makes datasets.

    A trained model needs no more of ``--data-dir`` than ``classes.txt`` and ``statistics.npz``, if both exist, and
    ``prepare.json`` if it is to read videos.

    Attributes:
        class_names: the lines of ``classes.txt``, or the sorted labels of the split train.
        frames: turns an array into a model's input.
    """

    columns: Sequence[str]

    def __init__(self, cfg: FeatureTaskConfig, **kwargs):
        super().__init__(cfg, **kwargs)
        if cfg.sequence_length is not None:
            check_positive({"--sequence-length": cfg.sequence_length})
        if not 0 <= cfg.encoder_flops < math.inf:
            raise ValueError(f"--encoder-flops: expected a number of at least 0, got {cfg.encoder_flops}")
        self.encoder_flops = cfg.encoder_flops
        check_choice("--crop", cfg.crop, ("head", "tail"))
        check_choice("--padding", cfg.padding, ("data", "masked"))
        self.folder = Path(cfg.data_dir)
        head_steps = cfg.sequence_length if cfg.crop == "head" else None
        self.inputs = Inputs(("numbers",), video_folder=self.folder, head_steps=head_steps)
        if cfg.data_dir == "" or not any((self.folder / name).is_file() for name in (MANIFEST, CLASSES)):
            raise ValueError(
                f"--data-dir: expected a folder with {MANIFEST}, as skiprnn-prepare features makes, "
                f"got {cfg.data_dir!r}{self.data_moved}"
            )
        has_classes = (self.folder / CLASSES).is_file()
        self.class_names = read_classes(self.folder) if has_classes else find_labels(self.items, "train")
        if len(self.class_names) < 2:
            where = CLASSES if has_classes else f"split train of {MANIFEST}"
            raise ValueError(f"{self.folder}: expected at least two classes in {where}, got {self.class_names}")
        self.output_size = len(self.class_names)
        has_statistics = cfg.normalize or (self.folder / STATISTICS).is_file()
        statistics = read_statistics(self.folder) if has_statistics else None
        self.input_size = len(statistics.mean) if has_statistics else self.store.width
        fit = Fit(cfg.sequence_length, cfg.crop, padding=cfg.padding)
        self.frames = Frames(fit, statistics if cfg.normalize else None)

    @cached_property
    def items(self) -> List[Item]:
        """The whole manifest."""
        return read_manifest(self.folder, self.columns)

    @cached_property
    def store(self) -> FeatureStore:
        return FeatureStore(self.folder, self.items)

    def make_dataset(self, positions: Sequence[int], key: Tuple[int, ...], fixed: bool) -> FeatureDataset:
        """A dataset of the store's items at ``positions``; for ``key`` and ``fixed`` see :class:`FeatureDataset`."""
        raise NotImplementedError

    def load_dataset(self, split, combine=False, **kwargs):
        """Load a split; its arrays are read later. Raises ValueError if the split does not exist or is wrong."""
        positions = [position for position, item in enumerate(self.items) if item.split == split]
        if not positions:
            splits = ", ".join(sorted({item.split for item in self.items}))
            raise ValueError(f"{self.folder / MANIFEST}: expected sequences of split {split!r}, got only {splits}")
        check_labels(self.folder, [self.items[position] for position in positions], self.class_names)
        if self.store.width != self.input_size:
            raise ValueError(
                f"{self.folder / STATISTICS}: expected {self.store.width} features, as the arrays have, "
                f"got {self.input_size}"
            )
        self.store.check(positions)
        key = split_key(split, self.cfg.seed)
        self.datasets[split] = self.make_dataset(positions, key, fixed=not self.trains_on(split))

    def encode(self, raw) -> np.ndarray:
        """Crop, normalise and pad an array [T, input_size] as in training; the result is float32."""
        array = np.asarray(raw)
        if array.ndim != 2 or array.shape[1] != self.input_size or array.dtype.kind not in "iuf":
            raise ValueError(f"expected numbers [T, {self.input_size}], got {array.dtype} {array.shape}")
        return self.frames(array)

    def kept_steps(self, raw, encoded_steps):
        return self.frames.fit.kept(len(raw))

    def state_dict(self):
        """The task's state, which fairseq saves in checkpoints."""
        return {**super().state_dict(), "features": self._fingerprint()}

    def load_state_dict(self, state_dict):
        """Raises ValueError for a model that was trained with other classes or normalised by other statistics."""
        if state_dict.get("features", self._fingerprint()) != self._fingerprint():
            raise ValueError(
                "--data-dir: expected the classes, and with --normalize the statistics, that the model was trained "
                f"with, {self.cfg.data_dir!r} has others"
            )
        super().load_state_dict(state_dict)

    def _fingerprint(self) -> int:
        statistics = b"" if self.frames.statistics is None else np.concatenate(self.frames.statistics).tobytes()
        return zlib.crc32("\n".join(self.class_names).encode() + statistics)
