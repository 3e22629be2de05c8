"""Labelled texts, read from fairseq's binarized form."""

import io
from pathlib import Path
from typing import List, NamedTuple, Optional, Tuple

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.data.data_utils import load_indexed_dataset

from ..reading import first_sentence, show_progress
from .fit import Fit
from .sequence import StoredDataset


class Items(NamedTuple):
    """The items of a split.

    Attributes:
        tokens: the token ids of each item, int64 [T], perhaps followed by an end-of-sentence symbol; an item is read
            when it is asked for.
        lengths: the number of token ids of each item without that symbol, [N].
    """

    tokens: torch.utils.data.Dataset
    lengths: np.ndarray


def load_dictionary(path: Path, content: Optional[bytes] = None) -> Dictionary:
    """Load fairseq's ``dict.txt``: a word and its count on each line. Raises ValueError if it can't be read.

    fairseq's special symbols, which are not in the file, come first. ``content`` is what the file holds, if that has
    been read already.
    """
    try:
        text = (path.read_bytes() if content is None else content).decode("utf-8")
        dictionary = Dictionary.load(io.StringIO(text, newline=None))
    except Exception as error:  # a file can be broken, or be something else, in any way
        raise ValueError(f"{path}: can't be read as a fairseq dictionary ({first_sentence(error)})") from error
    if len(dictionary) == dictionary.nspecial:
        raise ValueError(f"{path}: expected a word and its count on each line, got none")
    return dictionary


def load_items(prefix: Path, dictionary: Dictionary) -> Items:
    """Load a split from PREFIX.bin and PREFIX.idx.

    All of it is read once. Raises ValueError if it can't be read or a token id is not in the dictionary.
    """
    for suffix in (".bin", ".idx"):
        if not Path(f"{prefix}{suffix}").is_file():
            raise ValueError(f"{prefix}{suffix}: no such file")
    try:
        tokens = load_indexed_dataset(str(prefix), dictionary)
        indices = show_progress(range(len(tokens)), str(prefix))
        lengths = np.array([_check_item(tokens[index], dictionary) for index in indices])
    except Exception as error:
        raise ValueError(f"{prefix}: can't be read as fairseq's binarized data ({first_sentence(error)})") from error
    if len(lengths) == 0:
        raise ValueError(f"{prefix}: expected at least one item, got none")
    return Items(tokens, lengths)


def _check_item(tokens: torch.Tensor, dictionary: Dictionary) -> int:
    """The item's length without the end-of-sentence symbol. Raises ValueError for a token id outside the dictionary."""
    if len(tokens) == 0:
        return 0
    low, high = tokens.min(), tokens.max()
    if low < 0 or high >= len(dictionary):
        wrong = low if low < 0 else high
        raise ValueError(f"expected token ids of its dictionary, from 0 to {len(dictionary) - 1}, got {wrong}")
    return len(tokens) - int(tokens[-1] == dictionary.eos())


def find_classes(dictionary: Dictionary) -> List[int]:
    """The ids in a label dictionary that are labels.

    The others are fairseq's special symbols, and ``madeupword0000`` and so on, with which fairseq-preprocess pads
    dictionaries.
    """
    symbols = range(dictionary.nspecial, len(dictionary))
    return [symbol for symbol in symbols if not dictionary[symbol].startswith("madeupword")]


def load_labels(prefix: Path, dictionary: Dictionary) -> np.ndarray:
    """The class of each item of a split, int64 [N]: the index of its label in ``find_classes``."""
    items = load_items(prefix, dictionary)
    classes = {symbol: number for number, symbol in enumerate(find_classes(dictionary))}
    labels = []
    for index, length in enumerate(items.lengths):
        symbols = items.tokens[index][:length].tolist()
        if len(symbols) != 1 or symbols[0] not in classes:
            names = [dictionary[symbol] for symbol in symbols]
            raise ValueError(f"{prefix}: expected one label for each text, got {names} for text {index}")
        labels.append(classes[symbols[0]])
    return np.array(labels)


class TextDataset(StoredDataset):
    """Labelled texts.

    Args:
        texts: the texts' token ids.
        labels: the texts' classes, int64 [N].
        fit: the length to bring texts to.
        key, fixed: see :class:`StoredDataset`.
    """

    def __init__(self, texts: Items, labels: np.ndarray, fit: Fit, key: Tuple[int, ...], fixed: bool):
        self.texts = texts
        self.labels = labels
        self.fit = fit
        super().__init__(fit.sizes(texts.lengths), key, fixed)

    def read(self, index: int) -> Tuple[np.ndarray, int]:
        tokens = self.texts.tokens[index][: self.texts.lengths[index]]
        return self.fit(tokens.numpy()), self.labels[index]
