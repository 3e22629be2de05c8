"""Datasets of sequences with their targets, and their batches."""

import zlib
from typing import Any, Sequence, Tuple

import numpy as np
import torch
from fairseq.data import FairseqDataset
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


def split_key(split: str, seed: int) -> Tuple[int, int]:
    """Integers that seed the random draws of a split, different for each split and seed."""
    return zlib.crc32(split.encode()), seed


class SequenceDataset(FairseqDataset):
    """Makes batches of sequences.

    A subclass makes the items, ``{"id": int, "x": array [T, D], "target": number, "seed": int}``, and returns the
    ``size`` of each, which is T. For texts, ``x`` holds token ids, int64 [T]. The seed is for the model's random draws.
    """

    def collater(self, samples) -> dict:
        """Make a batch as fairseq's trainer and our models expect it; ``ntokens`` counts steps.

        ``net_input`` holds ``lengths``, int64 [B], if sequences differ in length; steps past a sequence's length are
        padding that the model ignores.
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
        """The targets of a batch, [B]; a subclass whose targets are not numbers overrides this."""
        return torch.from_numpy(np.array(targets))

    def num_tokens(self, index: int) -> int:
        return self.size(index)

    def num_tokens_vec(self, indices: np.ndarray) -> np.ndarray:
        return np.array([self.size(index) for index in indices])


class StoredDataset(SequenceDataset):
    """The same sequences in every epoch; a subclass reads one sequence at a time.

    A training set is shuffled again in every epoch. The order and seeds of epoch e depend only on (``key``, e), so that
    a run repeats with any number of workers. A held-out set keeps its order and seeds.

    Args:
        sizes: the length T of each sequence, [N].
        key: integers that seed the random draws (see :func:`split_key`).
        fixed: whether this is a held-out set.
    """

    can_reuse_epoch_itr_across_epochs = False  # so that each epoch has another order

    def __init__(self, sizes: np.ndarray, key: Tuple[int, ...], fixed: bool):
        self.sizes = np.asarray(sizes)
        self.key = key
        self.fixed = fixed
        self.set_epoch(1)

    def read(self, index: int) -> Tuple[np.ndarray, float]:
        """The input, float32 [T, D] or int64 [T], and the target of a sequence."""
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
