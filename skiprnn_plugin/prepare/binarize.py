"""Writes texts and labels in fairseq's binarized form, with the same result as ``fairseq-preprocess --only-source``."""

from collections import Counter
from pathlib import Path
from typing import Iterable, List, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import make_builder


def build_dictionary(items: Iterable[List[str]], min_count: int) -> Dictionary:
    """A dictionary of the tokens that occur at least ``min_count`` times in ``items``, the most frequent first."""
    counts: Counter = Counter()
    for tokens in items:
        counts.update(tokens)
    dictionary = Dictionary()
    for token, count in counts.items():
        dictionary.add_symbol(token, count)
    dictionary.finalize(threshold=min_count, padding_factor=1)  # no made-up words
    return dictionary


def write_items(prefix: Path, dictionary: Dictionary, items: Iterable[List[str]]) -> Tuple[int, int]:
    """Write ``prefix.bin`` and ``prefix.idx``: the token ids of each item, then the end-of-sentence symbol.

    Returns:
        The number of tokens of all items, and how many of these the dictionary does not know.
    """
    builder = make_builder(f"{prefix}.bin", impl="mmap", vocab_size=len(dictionary))
    tokens = unknown = 0
    for item in items:
        ids = [dictionary.index(token) for token in item]
        builder.add_item(torch.tensor([*ids, dictionary.eos()]))
        tokens += len(ids)
        unknown += ids.count(dictionary.unk())
    builder.finalize(f"{prefix}.idx")
    return tokens, unknown
