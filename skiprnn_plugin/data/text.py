"""Texts as sequences of word numbers of a fixed or limited length, with a label each."""

from dataclasses import dataclass
from typing import Tuple

import numpy as np

from .binarized import Items
from .sequence import StoredDataset


@dataclass(frozen=True)
class Fit:
    """Brings texts to a length.

    Attributes:
        length: words that a text has at most; with ``padding`` "data", exactly.
        keep: which end of a longer text stays, "start" or "end".
        pad_side: where a shorter one is filled up with ``pad_word``, "left" or "right".
        padding: "data": pad words are input like any other; "masked": shorter texts stay short.
        pad_word: its number.
    """

    length: int
    keep: str
    pad_side: str
    padding: str
    pad_word: int

    def __call__(self, words: np.ndarray) -> np.ndarray:
        """int64 [T], from the words' numbers, int64 [any]."""
        words = words[: self.length] if self.keep == "start" else words[-self.length :]
        if self.padding == "masked":
            return words
        missing = self.length - len(words)
        sides = (missing, 0) if self.pad_side == "left" else (0, missing)
        return np.pad(words, sides, constant_values=self.pad_word)

    def sizes(self, lengths: np.ndarray) -> np.ndarray:
        """T of texts of so many words, [N]."""
        return np.minimum(lengths, self.length) if self.padding == "masked" else np.full_like(lengths, self.length)


class TextDataset(StoredDataset):
    """Labelled texts.

    Args:
        texts: their words.
        labels: their classes, int64 [N].
        fit: what brings them to a length.
        key, fixed: see :class:`StoredDataset`.
    """

    def __init__(self, texts: Items, labels: np.ndarray, fit: Fit, key: Tuple[int, ...], fixed: bool):
        self.texts = texts
        self.labels = labels
        self.fit = fit
        super().__init__(fit.sizes(texts.lengths), key, fixed)

    def read(self, index: int) -> Tuple[np.ndarray, int]:
        words = self.texts.tokens[index][: self.texts.lengths[index]]
        return self.fit(words.numpy()), self.labels[index]
