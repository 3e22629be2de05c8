"""Makes a corpus for translation in which many words can be skipped: python make_data.py FOLDER [options].

The source is words with noise between them: the number in a word's name says how many words of noise follow it. The
target is the words in reverse, without the noise. "w4_1 n7 w0_0 w5_2 n3 n7" becomes "w5 w0 w4".
"""

import argparse
import random
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("folder", type=Path, help="folder for the texts, which is made")
parser.add_argument("--train", type=int, default=8000, help="pairs of sentences to train on (default: %(default)s)")
parser.add_argument("--valid", type=int, default=200, help="pairs to validate with (default: %(default)s)")
parser.add_argument("--test", type=int, default=200, help="pairs to test with (default: %(default)s)")
parser.add_argument("--words", type=int, default=20, help="different words (default: %(default)s)")
parser.add_argument("--noise-words", type=int, default=20, help="different words of noise (default: %(default)s)")
parser.add_argument("--most-noise", type=int, default=2, help="most noise after a word (default: %(default)s)")
parser.add_argument("--shortest", type=int, default=2, help="least words in a target (default: %(default)s)")
parser.add_argument("--longest", type=int, default=8, help="most words in a target (default: %(default)s)")
parser.add_argument("--seed", type=int, default=0, help="seed of the corpus (default: %(default)s)")
args = parser.parse_args()
least = {"train": 1, "valid": 1, "test": 1, "words": 1, "noise_words": 1, "most_noise": 0, "shortest": 1}
for name, smallest in {**least, "longest": args.shortest}.items():
    if getattr(args, name) < smallest:
        parser.error(f"--{name.replace('_', '-')}: expected at least {smallest}, got {getattr(args, name)}")

draw = random.Random(args.seed)
texts = {}
for split in ("train", "valid", "test"):
    sources, targets = [], []
    for _ in range(getattr(args, split)):
        words = [draw.randrange(args.words) for _ in range(draw.randint(args.shortest, args.longest))]
        source = []
        for word in words:
            noise = word % (args.most_noise + 1)
            source.append(f"w{word}_{noise}")
            source += [f"n{draw.randrange(args.noise_words)}" for _ in range(noise)]
        sources.append(" ".join(source))
        targets.append(" ".join(f"w{word}" for word in reversed(words)))
    texts[f"{split}.target"], texts[f"{split}.source"] = targets, sources

args.folder.mkdir(parents=True, exist_ok=True)
for name, lines in reversed(texts.items()):  # train.source last: run.sh takes a folder that has it as complete
    (args.folder / name).write_text("\n".join(lines) + "\n")
