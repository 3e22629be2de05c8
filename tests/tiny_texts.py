"""A tiny data set of labelled texts as skiprnn-prepare writes one: what the label is, one of its words says."""

import random

from skiprnn_plugin.prepare.binarize import build_dictionary, write_items

SIZES = {"train": 64, "valid": 36, "test": 21}
LABELS = ["neg", "pos"]  # of items 0, 1, 2, ... in turn


def texts(split):
    """1 to 12 words each; the first three of a split have 1, 6 and 12."""
    rng = random.Random(split)
    lengths = [1, 6, 12] + [rng.randint(1, 12) for _ in range(SIZES[split] - 3)]
    drawn = [[*rng.choices("abcdefgh", k=length - 1), ("bad", "good")[i % 2]] for i, length in enumerate(lengths)]
    return [rng.sample(words, len(words)) for words in drawn]


def labels(split):
    return [LABELS[i % 2] for i in range(SIZES[split])]


def write_texts(folder):
    for name, items in (("input0", texts), ("label", lambda split: [[label] for label in labels(split)])):
        (folder / name).mkdir(parents=True)
        dictionary = build_dictionary(items("train"), 1)
        dictionary.save(str(folder / name / "dict.txt"))
        for split in SIZES:
            write_items(folder / name / split, dictionary, items(split))
    return folder


def damaged(content, rng):
    """A few bytes changed, left out or put in; or the end cut off."""
    content = bytearray(content)
    kind, position = rng.choice(["flip", "delete", "insert", "truncate"]), rng.randrange(len(content))
    if kind == "flip":
        content[position] ^= 1 << rng.randrange(8)
    elif kind == "delete":
        del content[position : position + rng.randint(1, 8)]
    elif kind == "insert":
        content[position:position] = rng.randbytes(rng.randint(1, 8))
    else:
        del content[position:]
    return bytes(content)
