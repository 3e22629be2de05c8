"""The common part of the tasks on stored features."""

import contextlib
import math
import zlib
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import List, Optional, Sequence, Tuple

import numpy as np
import torch

from ..arguments import check_choice, check_size
from ..data.features import STATISTICS, FeatureDataset, FeatureStore, FolderFacts, Frames, read_items, read_statistics
from ..data.fit import Fit
from ..data.manifest import CLASSES, MANIFEST, Item, check_labels, find_labels, find_manifest, read_classes
from ..data.sequence import split_key
from ..prepare.frame_encoder import find_encoding_options
from ..prepare.input_files import read_csv
from ..prepare.record import TableColumns, find_columns, find_record, read_record
from ..prepare.write_features import LABELS, NUMBERS
from .presentation import Inputs
from .sequence import SequenceTask, SequenceTaskConfig


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

    A trained model does not need ``--data-dir``, as its checkpoint holds the facts. For a checkpoint of an earlier
    version they are read from the folder: ``classes.txt`` and ``statistics.npz``, if both exist, or the manifest; and
    ``prepare.json`` if the model is to read videos.

    Attributes:
        facts: what a trained model needs to know of the folder.
        class_names: the lines of ``classes.txt``, or the sorted labels of the split train.
        frames: turns an array into a model's input.
    """

    columns: Sequence[str]

    def __init__(self, cfg: FeatureTaskConfig, **kwargs):
        super().__init__(cfg, **kwargs)
        if cfg.sequence_length is not None:
            check_size("--sequence-length", cfg.sequence_length)
        if not 0 <= cfg.encoder_flops < math.inf:
            raise ValueError(f"--encoder-flops: expected a number of at least 0, got {cfg.encoder_flops}")
        self.encoder_flops = cfg.encoder_flops
        check_choice("--crop", cfg.crop, ("head", "tail"))
        check_choice("--padding", cfg.padding, ("data", "masked"))
        self.folder = Path(cfg.data_dir)
        if not self.from_checkpoint:  # a checkpoint brings the facts
            self.use(self.read_facts())

    def read_facts(self) -> FolderFacts:
        """The facts of ``--data-dir``. Raises ValueError if it is not a folder of features."""
        folder = self.folder
        self._check_folder(CLASSES)
        class_names = self.find_classes()
        has_statistics = self.cfg.normalize or (folder / STATISTICS).is_file()
        statistics = read_statistics(folder) if has_statistics else None
        width = self.store.width if statistics is None else len(statistics.mean)
        encoding, columns = None, TableColumns()
        with contextlib.suppress(ValueError):  # a folder that was made otherwise has no record
            record = read_record(folder)
            encoding, columns = find_encoding_options(record), find_columns(record)
        return FolderFacts(class_names, width, statistics, encoding, columns.features, sequence_column=columns.sequence)

    def find_classes(self) -> List[str]:
        """The classes of ``--data-dir``. Raises ValueError if there are fewer than two."""
        folder = self.folder
        has_classes = (folder / CLASSES).is_file()
        class_names = read_classes(folder) if has_classes else find_labels(self.items, "train")
        if len(class_names) < 2:
            where = CLASSES if has_classes else f"split train of {find_manifest(folder).name}"
            raise ValueError(f"{folder}: expected at least two classes in {where}, got {class_names}")
        return class_names

    def check_items(self, items: Sequence[Item]) -> None:
        """Raise ValueError if items of a split have targets that the model can't predict."""
        try:
            check_labels(self.folder, items, self.class_names)
        except ValueError as error:
            if find_record(self.folder).get(LABELS) != NUMBERS:
                raise
            raise ValueError(
                f"{error}; the labels of this folder are numbers, for --task feature_regression"
            ) from error

    def _check_folder(self, *names: str) -> None:
        """Raise ValueError if ``--data-dir`` has neither a manifest nor one of these files."""
        files = [find_manifest(self.folder), *(self.folder / name for name in names)]
        if self.cfg.data_dir == "" or not any(path.is_file() for path in files):
            raise ValueError(
                f"--data-dir: expected a folder with {MANIFEST}, as skiprnn-prepare features makes, "
                f"got {self.cfg.data_dir!r}{self.data_moved}"
            )

    def use(self, facts: FolderFacts) -> None:
        """Make the facts those of this task."""
        cfg, self.facts = self.cfg, facts
        self.class_names, self.output_size = facts.class_names, len(facts.class_names)
        self.input_size, self.feature_names = facts.width, facts.feature_names
        head_steps = cfg.sequence_length if cfg.crop == "head" else None
        read_table = partial(read_csv, columns=TableColumns(facts.feature_names, facts.sequence_column))
        readers = {".csv": read_table, ".tsv": read_table}
        # Of skiprnn-prepare features, the record says nothing of an encoder
        reads_videos = facts.record is None or "encoder" in facts.record
        self.inputs = Inputs(("numbers",), readers, self.folder if reads_videos else None, facts.record, head_steps)
        fit = Fit(cfg.sequence_length, cfg.crop, padding=cfg.padding)
        self.frames = Frames(fit, facts.statistics if cfg.normalize else None)

    @cached_property
    def items(self) -> List[Item]:
        """The whole manifest."""
        return read_items(self.folder, self.columns)

    @cached_property
    def store(self) -> FeatureStore:
        return FeatureStore(self.folder, self.items)

    def make_dataset(self, positions: Sequence[int], key: Tuple[int, ...], fixed: bool) -> FeatureDataset:
        """A dataset of the store's items at ``positions``; for ``key`` and ``fixed`` see :class:`FeatureDataset`."""
        raise NotImplementedError

    def load_dataset(self, split, combine=False, **kwargs):
        """Load a split; its arrays are read later. Raises ValueError if the split does not exist or is wrong."""
        self._check_folder()
        positions = [position for position, item in enumerate(self.items) if item.split == split]
        if not positions:
            splits = ", ".join(sorted({item.split for item in self.items}))
            raise ValueError(f"{find_manifest(self.folder)}: expected sequences of split {split!r}, got only {splits}")
        self.check_items([self.items[position] for position in positions])
        if self.store.width != self.input_size:
            raise ValueError(
                f"{self.folder / STATISTICS}: expected {self.store.width} features, as the arrays have, "
                f"got {self.input_size}"
            )
        self.store.check(positions)
        key = split_key(split, self.cfg.seed)
        self.datasets[split] = self.make_dataset(positions, key, fixed=not self.trains_on(split))

    @property
    def encodes_steps(self) -> bool:
        return type(self).encode is FeatureTask.encode  # not a subclass's own

    def encode(self, raw) -> np.ndarray:
        """Crop, normalise and pad an array [T, input_size] as in training; the result is float32."""
        if isinstance(raw, torch.Tensor):
            raw = raw.detach().cpu()
            raw = raw.float() if raw.dtype == torch.bfloat16 else raw  # numpy has no such type
        array = np.asarray(raw)
        if array.ndim != 2 or array.shape[1] != self.input_size or array.dtype.kind not in "iuf":
            raise ValueError(f"expected numbers [T, {self.input_size}], got {array.dtype} {array.shape}")
        return self.frames(array)

    def kept_steps(self, raw, encoded_steps):
        return self.frames.fit.kept(len(raw))

    def state_dict(self):
        """The task's state, which fairseq saves in checkpoints."""
        return {**super().state_dict(), "features": self.facts.as_state()}

    def load_state_dict(self, state_dict):
        """Take the facts of a trained model, which its checkpoint holds.

        Raises ValueError for a checkpoint without these facts if ``--data-dir`` has other classes or, with
        ``--normalize``, other statistics. A run that is resumed has its own check, :attr:`data_fingerprint`.
        """
        stored = state_dict.get("features")
        is_whole = isinstance(stored, dict)
        if self.from_checkpoint:
            self.use(FolderFacts.from_state(stored) if is_whole else self.read_facts())
        expected = self._fingerprint(FolderFacts.from_state(stored)) if is_whole else stored
        if expected not in (None, self._fingerprint(self.facts)):
            raise ValueError(
                "--data-dir: expected the classes, the numbers to predict and, with --normalize, the statistics that "
                f"the model was trained with, {self.cfg.data_dir!r} has others"
            )
        super().load_state_dict(state_dict)

    @cached_property
    def data_fingerprint(self) -> int:
        """It tells other classes, other names of features and, with ``--normalize``, other statistics."""
        fingerprint = self._fingerprint(self.facts._replace(targets=None))
        return zlib.crc32("\n".join(self.feature_names or []).encode(), fingerprint)

    def _fingerprint(self, facts: FolderFacts) -> int:
        """A number that tells other classes and other statistics; earlier versions stored it instead of the facts."""
        normalizes = self.cfg.normalize and facts.statistics is not None
        statistics = np.concatenate(facts.statistics).tobytes() if normalizes else b""
        targets = b"" if facts.targets is None else np.concatenate(facts.targets).tobytes()
        return zlib.crc32("\n".join(facts.class_names).encode() + statistics + targets)
