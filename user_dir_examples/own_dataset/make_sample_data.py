"""Makes sample data in the form that the task reads: python make_sample_data.py FOLDER [SEQUENCES].

A sequence is 20 to 60 noisy points on a circle, which go round clockwise or counterclockwise.
"""

import argparse
import csv
from pathlib import Path

import numpy as np

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("folder", type=Path, help="the folder to make")
parser.add_argument("sequences", nargs="?", type=int, default=1000, help="to train on (default: %(default)s)")
args = parser.parse_args()

rng = np.random.default_rng(1)
for split, count in (("train", args.sequences), ("valid", args.sequences // 4)):
    (args.folder / split).mkdir(parents=True)
    with open(args.folder / split / "labels.csv", "w", newline="") as file:
        for index in range(count):
            label, sign = (("clockwise", -1), ("counterclockwise", 1))[index % 2]
            angle = rng.uniform(0, 2 * np.pi) + sign * rng.uniform(0.1, 0.5) * np.arange(rng.integers(20, 61))
            points = np.stack([np.cos(angle), np.sin(angle)], axis=1) + rng.normal(0, 0.3, (len(angle), 2))
            np.save(args.folder / split / f"{index}.npy", points.astype(np.float32))
            csv.writer(file).writerow([f"{index}.npy", label])
