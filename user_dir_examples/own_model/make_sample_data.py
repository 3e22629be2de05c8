"""Make up texts of 20 to 60 words, a few of which say whether the text is good or bad; the others say nothing.

    python make_sample_data.py FOLDER [TRAINING_TEXTS]

writes FOLDER/train.text and FOLDER/train.label, a text and its label on each line, and 500 for validation likewise.
"""

import argparse
import random
from pathlib import Path


def make_text():
    """A text and its label."""
    label = random.choice(["bad", "good"])
    words = [f"word{random.randrange(100)}" for _ in range(random.randint(20, 60))]
    for place in random.sample(range(len(words)), 3):
        words[place] = {"bad": "dull", "good": "great"}[label]
    return " ".join(words), label


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder for the texts")
    parser.add_argument("training_texts", nargs="?", type=int, default=4000, help="to train on (default: %(default)s)")
    args = parser.parse_args()
    random.seed(1)
    args.folder.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", args.training_texts), ("valid", 500)):
        texts, labels = zip(*(make_text() for _ in range(count)))
        (args.folder / f"{split}.text").write_text("\n".join(texts) + "\n")
        (args.folder / f"{split}.label").write_text("\n".join(labels) + "\n")
