"""A tiny data set of labelled texts in the form that skiprnn-prepare writes; one word of a text shows its label."""

import random

from skiprnn_plugin.prepare.binarize import build_dictionary, write_items

SIZES = {"train": 64, "valid": 36, "test": 21}
LABELS = ["neg", "pos"]  # items 0, 1, 2, ... have these labels in turn


def texts(split):
    """Texts of 1 to 12 words; the first three of a split have 1, 6 and 12 words."""
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
    """The content with a bit changed, a few bytes removed or inserted, or its end cut off."""
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
