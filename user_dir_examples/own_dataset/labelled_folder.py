"""The task ``labelled_folder``: DATA_DIR/SPLIT/labels.csv has a line ``NAME.npy,LABEL`` for each array [T, D] there."""

import csv
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from fairseq.data import FairseqDataset
from fairseq.tasks import register_task

from skiprnn_plugin.tasks.sequence import SequenceTask, SequenceTaskConfig


@dataclass
class LabelledFolderConfig(SequenceTaskConfig):
    data_dir: str = field(default="", metadata={"help": "folder with the folders train and valid"})


def read_labels(folder: Path):
    """The path and the label of each sequence in the folder of a split."""
    if not (folder / "labels.csv").is_file():
        raise ValueError(f"--data-dir: expected a folder with {folder.name}/labels.csv, got {str(folder.parent)!r}")
    with open(folder / "labels.csv", newline="") as file:
        return [(folder / name, label) for name, label in csv.reader(file)]


@register_task("labelled_folder", dataclass=LabelledFolderConfig)
class LabelledFolderTask(SequenceTask):
    """The classes are the labels of the split ``train``, in alphabetical order."""

    predicts = "classes"

    def __init__(self, cfg: LabelledFolderConfig, **kwargs):
        super().__init__(cfg, **kwargs)
        train = read_labels(Path(cfg.data_dir) / "train")
        self.class_names = sorted({label for _, label in train})
        self.input_size = np.load(train[0][0]).shape[1]
        self.output_size = len(self.class_names)

    def load_dataset(self, split, **kwargs):
        items = read_labels(Path(self.cfg.data_dir) / split)
        self.datasets[split] = LabelledFolder([(path, self.class_names.index(label)) for path, label in items])


class LabelledFolder(FairseqDataset):
    """Arrays [T, D], which are read when they are needed, and the numbers of their classes."""

    def __init__(self, items):
        self.items = items
        self.lengths = np.array([len(np.load(path, mmap_mode="r")) for path, _ in items])

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        path, target = self.items[index]
        return {"id": index, "x": torch.from_numpy(np.load(path)).float(), "target": target}

    def collater(self, samples):
        lengths = torch.tensor([len(sample["x"]) for sample in samples])  # in any order
        x = torch.nn.utils.rnn.pad_sequence([sample["x"] for sample in samples], batch_first=True)
        return {
            "id": torch.tensor([sample["id"] for sample in samples]),
            "nsentences": len(samples),
            "ntokens": int(lengths.sum()),  # fairseq needs it for its own criterions and to log the speed
            "net_input": {"x": x, "lengths": lengths},
            "target": torch.tensor([sample["target"] for sample in samples]),
        }

    def ordered_indices(self):
        return np.random.permutation(len(self))  # fairseq sets numpy's seed; itself it shuffles only whole batches

    def num_tokens(self, index):
        return self.lengths[index]

    def size(self, index):
        return self.lengths[index]
