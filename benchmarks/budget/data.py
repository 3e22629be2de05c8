"""The data sets of the comparison, cut small so that a run takes less than a minute on one core."""

from collections import Counter
from pathlib import Path
from typing import Callable, Dict, Iterator, NamedTuple, Optional

import numpy as np
import torch
from torch import Tensor

from skiprnn_plugin.data.adding import AddingDataset
from skiprnn_plugin.data.frequency import FrequencyDataset
from skiprnn_plugin.data.mnist import read_database, scaled
from skiprnn_plugin.prepare.aclimdb import read_aclimdb
from skiprnn_plugin.prepare.tokenize_text import tokenize_words
from tests.made_up_recordings import make_recordings


class Sequences(NamedTuple):
    """Padded sequences, float32 [N, T, D] or token ids, int64 [N, T]; their lengths, [N]; their targets, [N]."""

    x: Tensor
    lengths: Tensor
    targets: Tensor

    @property
    def number(self) -> int:
        return len(self.x)


class Data(NamedTuple):
    """A data set, and how a model is trained on it.

    Attributes:
        train, test: sequences for training and held-out ones.
        outputs: classes, or 1 for a regression.
        tokens: size of the vocabulary; 0 if the steps are features.
        updates: training updates.
        batch: sequences in a batch.
        lr: learning rate of Adam.
    """

    train: Sequences
    test: Sequences
    outputs: int
    tokens: int = 0
    updates: int = 1000
    batch: int = 32
    lr: float = 2e-3


def stack(rows, targets) -> Sequences:
    """Padded sequences from rows of different lengths."""
    x = torch.nn.utils.rnn.pad_sequence([torch.as_tensor(row) for row in rows], batch_first=True)
    return Sequences(x, torch.tensor([len(row) for row in rows]), torch.as_tensor(targets))


def recordings(folder: Optional[Path]) -> Data:
    return Data(stack(*make_recordings(180, seed=1)), stack(*make_recordings(300, seed=2)), 3, updates=1500)


def _draw(dataset, seed: int, size: int) -> Sequences:
    x, targets = dataset.draw(np.random.default_rng(seed), size)
    return Sequences(
        torch.from_numpy(x),
        torch.full((size,), x.shape[1]),
        torch.from_numpy(np.asarray(targets)).to(torch.int64 if targets.dtype.kind == "i" else torch.float32),
    )


def adding(folder: Optional[Path]) -> Data:
    dataset = AddingDataset(20, -0.5, 0.5, 1, (0,), True)
    return Data(_draw(dataset, 1, 100_000), _draw(dataset, 2, 1000), 1, updates=2000, batch=64, lr=4e-3)


def frequency(folder: Optional[Path]) -> Data:
    dataset = FrequencyDataset(50, 1.0, 1.0, 100.0, 1, (0,), True)
    return Data(_draw(dataset, 1, 20_000), _draw(dataset, 2, 1000), 2, updates=2500, batch=64, lr=3e-3)


def mnist(folder: Path) -> Data:
    parts = []
    for part, size in (("train", 6000), ("t10k", 1500)):
        images, labels = read_database(folder, part)
        x = torch.from_numpy(scaled(images[:size])).view(-1, 28, 28)
        parts.append(Sequences(x, torch.full((size,), 28), torch.from_numpy(labels[:size].astype(np.int64))))
    return Data(*parts, 10, updates=1500, batch=64)


def imdb(folder: Path) -> Data:
    """The last 100 words of 6,000 reviews, in a vocabulary of the 3,000 most frequent words."""
    reviews, rng, texts = read_aclimdb(folder), np.random.default_rng(0), {}
    for split, size in (("train", 6000), ("test", 2000)):
        rows = [reviews[split][i] for i in rng.permutation(len(reviews[split]))[:size]]
        texts[split] = [tokenize_words(row.text)[-100:] for row in rows], [int(row.label == "pos") for row in rows]
    counts = Counter(word for words in texts["train"][0] for word in words)
    ids = {word: number + 2 for number, (word, _) in enumerate(counts.most_common(3000))}
    parts = [
        stack([[ids.get(word, 1) for word in words] for words in texts[split][0]], texts[split][1]) for split in texts
    ]
    return Data(*parts, 2, tokens=3002, updates=1500)


def smartwatch(folder: Path) -> Data:
    """Every tenth step of the smart watch's recordings; the people of the held-out ones are others."""
    stored = np.load(folder)
    rows = np.split(stored["values"], np.cumsum(stored["lengths"])[:-1])
    held_out = np.isin(stored["subject"], np.unique(stored["subject"])[:4])
    values = np.concatenate([row for row, out in zip(rows, held_out) if not out])
    rows = [((row - values.mean(0)) / values.std(0))[::10].astype(np.float32) for row in rows]
    parts = [
        stack([row for row, out in zip(rows, held_out) if out == wanted], stored["labels"][held_out == wanted])
        for wanted in (False, True)
    ]
    return Data(*parts, 7, updates=1500, batch=12, lr=3e-3)


SETS: Dict[str, Callable[[Optional[Path]], Data]] = {
    "recordings": recordings,
    "adding": adding,
    "frequency": frequency,
    "mnist": mnist,
    "imdb": imdb,
    "smartwatch": smartwatch,
}

# Hand-picked, by the few fixed lambdas that were tried and the prices at which the rule target ended
LAMBDAS = {
    "recordings": (3e-5, 1e-4, 3e-4, 1e-3, 3e-3),
    "adding": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2),
    "frequency": (3e-5, 1e-4, 3e-4, 1e-3, 3e-3),
    "mnist": (3e-3, 6e-3, 1e-2, 2e-2, 3e-2),
    "imdb": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2),
    "smartwatch": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2),
}

# The metric of a model that does not look at its input: accuracy, or for adding the targets' variance
CHANCE = {"recordings": 1 / 3, "adding": 1 / 6, "frequency": 1 / 2, "mnist": 1 / 10, "imdb": 1 / 2, "smartwatch": 1 / 7}


def batches(sequences: Sequences, size: int, generator: torch.Generator) -> Iterator[Sequences]:
    """Batches without end, in a new order in every epoch."""
    while True:
        for rows in torch.randperm(sequences.number, generator=generator).split(size):
            if len(rows) == size:
                yield Sequences(*(part[rows] for part in sequences))
