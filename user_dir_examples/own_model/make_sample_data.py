"""Make up texts of 20 to 60 words, a few of which say whether the text is good or bad; the others say nothing.

    python make_sample_data.py FOLDER [TRAINING_TEXTS]

writes FOLDER/train.text and FOLDER/train.label, a text and its label on each line, and 500 for validation likewise.
"""

import random
import sys
from pathlib import Path


def make_text():
    """A text and its label."""
    label = random.choice(["bad", "good"])
    words = [f"word{random.randrange(100)}" for _ in range(random.randint(20, 60))]
    for place in random.sample(range(len(words)), 3):
        words[place] = {"bad": "dull", "good": "great"}[label]
    return " ".join(words), label


if __name__ == "__main__":
    random.seed(1)
    folder, size = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 4000
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", size), ("valid", 500)):
        texts, labels = zip(*(make_text() for _ in range(count)))
        (folder / f"{split}.text").write_text("\n".join(texts) + "\n")
        (folder / f"{split}.label").write_text("\n".join(labels) + "\n")
