"""Splits, tokenises and binarizes the IMDB reviews, in the form that fairseq's task ``sentence_prediction`` reads."""

import json
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

import numpy as np
from fairseq.data import Dictionary

from ..reading import show_progress
from ..version import __version__
from .aclimdb import LABELS, Review, read_aclimdb
from .binarize import build_dictionary, write_items
from .record import RECORD
from .tokenize_text import MODEL, Tokenizer, sentencepiece_tokenizer, tokenize_words, train_sentencepiece


def binarize_imdb(
    source: Path,
    folder: Path,
    *,
    bpe: str,
    vocab_size: Optional[int],
    min_count: int,
    valid_fraction: float,
    seed: int,
) -> Dict[str, Any]:
    """Write the splits ``train``, ``valid`` and ``test`` into an empty folder.

    - ``input0/`` holds the token ids of each review, then the end-of-sentence symbol, as ``fairseq-preprocess`` appends
      it, and the dictionary ``dict.txt``.
    - ``label/`` holds the label of each review, then the end-of-sentence symbol, which ``sentence_prediction`` strips.
      Its ``dict.txt`` has only neg and pos, whose ids minus the dictionary's ``nspecial`` are 0 and 1.
    - ``prepare.json`` holds the options, whether words keep their combining marks, the size of the vocabulary (without
      special symbols) and each split's counts; :func:`~skiprnn_plugin.prepare.tokenize_text.load_tokenizer` reads it.
    - ``sentencepiece.bpe.model`` is written if ``bpe`` is ``sentencepiece``.

    The vocabulary and the sentencepiece model are made from the training split only. The reviews of a split are sorted
    by label, then by number. The same reviews and options give the same files, except for the name of ``source`` in
    ``prepare.json``.

    Args:
        source: see :func:`~skiprnn_plugin.prepare.aclimdb.read_aclimdb`.
        folder: the folder to write to.
        bpe: ``none`` for :func:`~skiprnn_plugin.prepare.tokenize_text.tokenize_words`, or ``sentencepiece``.
        vocab_size: the number of pieces of the sentencepiece model.
        min_count: tokens that occur less often in the training split become unknown.
        valid_fraction: the fraction of the training reviews of each label that is drawn for validation.
        seed: the seed of that draw.

    Returns:
        What ``prepare.json`` holds.

    Raises:
        ValueError: the reviews are not what they should be, or are too few for the options.
    """
    reviews = _read(source, valid_fraction, seed)
    tokenize = _tokenizer(bpe, vocab_size, reviews["train"], folder)
    dictionary = build_dictionary(_tokens("counting", reviews["train"], tokenize), min_count)
    if len(dictionary) == dictionary.nspecial:
        raise ValueError(f"min_count: expected a count that some token of the training reviews has, got {min_count}")
    labels = Dictionary()
    for label in LABELS:
        labels.add_symbol(label, sum(review.label == label for review in reviews["train"]))
    for name in ("input0", "label"):
        (folder / name).mkdir()
    dictionary.save(str(folder / "input0" / "dict.txt"))
    labels.save(str(folder / "label" / "dict.txt"))
    splits = {}
    for split, chosen in reviews.items():
        tokens, unknown = write_items(folder / "input0" / split, dictionary, _tokens(split, chosen, tokenize))
        write_items(folder / "label" / split, labels, ([review.label] for review in chosen))
        splits[split] = {"reviews": len(chosen), "tokens": tokens, "unknown": unknown}
    record = {
        "source": source.resolve().name,
        "version": __version__,
        "bpe": bpe,
        "combining_marks": bpe == "none",
        "vocab_size": vocab_size,
        "min_count": min_count,
        "valid_fraction": valid_fraction,
        "seed": seed,
        "vocabulary": len(dictionary) - dictionary.nspecial,
        "splits": splits,
    }
    (folder / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return record


def _read(source: Path, valid_fraction: float, seed: int) -> Dict[str, List[Review]]:
    """The reviews of each split. The split valid gets the same fraction of the training reviews of each label."""
    stored = read_aclimdb(source)
    rng = np.random.default_rng(seed)
    held_out = set()
    for label in LABELS:
        candidates = [index for index, review in enumerate(stored["train"]) if review.label == label]
        count = round(valid_fraction * len(candidates))
        if not 0 < count < len(candidates):
            raise ValueError(
                f"valid_fraction: expected some of the {len(candidates)} training reviews in {label} for validation "
                f"and some for training, got {valid_fraction}, which is {count} of them"
            )
        held_out.update(rng.choice(candidates, count, replace=False).tolist())
    train, valid = [], []
    for index, review in enumerate(stored["train"]):
        (valid if index in held_out else train).append(review)
    return {"train": train, "valid": valid, "test": stored["test"]}


def _tokenizer(bpe: str, vocab_size: Optional[int], reviews: List[Review], folder: Path) -> Tokenizer:
    if bpe == "none":
        return tokenize_words
    model = train_sentencepiece((review.text for review in reviews), vocab_size)
    (folder / MODEL).write_bytes(model)
    return sentencepiece_tokenizer(model)


def _tokens(what: str, reviews: List[Review], tokenize: Tokenizer) -> Iterator[List[str]]:
    for review in show_progress(reviews, what, unit=" reviews"):
        tokens = tokenize(review.text)
        if not tokens:
            raise ValueError(f"{review.name}: expected words, got none")
        yield tokens
