"""Datasets of sequences with their targets, and their batches."""

import zlib
from typing import Any, Sequence, Tuple

import numpy as np
import torch
from fairseq.data import FairseqDataset
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


def split_key(split: str, seed: int) -> Tuple[int, int]:
    """What tells a split of a run from others, for its random draws."""
    return zlib.crc32(split.encode()), seed


class SequenceDataset(FairseqDataset):
    """A subclass makes the items, ``{"id": int, "x": array [T, D], "target": number, "seed": int}``, and says their
    ``size``, which is T. Words instead of numbers are an ``x`` int64 [T]. The seed is for the model's own random draws.
    """

    def collater(self, samples) -> dict:
        """A batch as fairseq's trainer and our models expect it; ``ntokens`` counts time steps.

        ``net_input`` holds ``lengths`` where sequences differ in length: what lies behind a shorter one is not there.
        """
        if len(samples) == 0:
            return {}
        sequences = [torch.as_tensor(sample["x"]) for sample in samples]
        lengths = torch.tensor([len(sequence) for sequence in sequences])
        net_input = {
            "x": pad_sequence(sequences, batch_first=True),
            "seeds": torch.from_numpy(np.array([sample["seed"] for sample in samples])),
        }
        if lengths.min() < lengths.max():
            net_input["lengths"] = lengths
        return {
            "id": torch.tensor([sample["id"] for sample in samples]),
            "nsentences": len(samples),
            "ntokens": int(lengths.sum()),
            "net_input": net_input,
            "target": self.collate_targets([sample["target"] for sample in samples]),
        }

    def collate_targets(self, targets: Sequence[Any]) -> Tensor:
        """Those of a batch; here a number each, [B]."""
        return torch.from_numpy(np.array(targets))

    def num_tokens(self, index: int) -> int:
        return self.size(index)

    def num_tokens_vec(self, indices: np.ndarray) -> np.ndarray:
        return np.array([self.size(index) for index in indices])


class StoredDataset(SequenceDataset):
    """The same sequences in every epoch; a subclass reads one of them.

    In training they are shuffled anew in every epoch. Order and seeds of epoch e depend on (``key``, e) alone, so that
    a run repeats with any number of workers; held out, they stay in order and keep their seeds.

    Args:
        sizes: length T of each sequence, [N].
        key: integers that tell this set from all others (the seed and the split).
        fixed: whether this is a held-out set.
    """

    can_reuse_epoch_itr_across_epochs = False  # for an order of its own in each epoch

    def __init__(self, sizes: np.ndarray, key: Tuple[int, ...], fixed: bool):
        self.sizes = np.asarray(sizes)
        self.key = key
        self.fixed = fixed
        self.set_epoch(1)

    def read(self, index: int) -> Tuple[np.ndarray, float]:
        """Input, float32 [T, D] or int64 [T], and target of a sequence."""
        raise NotImplementedError

    def set_epoch(self, epoch: int) -> None:
        rng = np.random.default_rng([*self.key, 0 if self.fixed else epoch])
        self.order = np.arange(len(self)) if self.fixed else rng.permutation(len(self))
        self.seeds = rng.integers(2**63 - 1, size=len(self))

    def __getitem__(self, index: int) -> dict:
        x, target = self.read(index)
        return {"id": index, "x": x, "target": target, "seed": self.seeds[index]}

    def __len__(self) -> int:
        return len(self.sizes)

    def ordered_indices(self) -> np.ndarray:
        return self.order

    def size(self, index: int) -> int:
        return self.sizes[index]

    def num_tokens_vec(self, indices: np.ndarray) -> np.ndarray:
        return self.sizes[indices]
