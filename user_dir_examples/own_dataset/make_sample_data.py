"""Makes sample data in the form that the task reads: python make_sample_data.py FOLDER [SEQUENCES].

A sequence is 20 to 60 noisy points on a circle, which go round clockwise or counterclockwise.
"""

import csv
import sys
from pathlib import Path

import numpy as np

folder = Path(sys.argv[1])
size = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
rng = np.random.default_rng(1)
for split, count in (("train", size), ("valid", size // 4)):
    (folder / split).mkdir(parents=True)
    with open(folder / split / "labels.csv", "w", newline="") as file:
        for index in range(count):
            label, sign = (("clockwise", -1), ("counterclockwise", 1))[index % 2]
            angle = rng.uniform(0, 2 * np.pi) + sign * rng.uniform(0.1, 0.5) * np.arange(rng.integers(20, 61))
            points = np.stack([np.cos(angle), np.sin(angle)], axis=1) + rng.normal(0, 0.3, (len(angle), 2))
            np.save(folder / split / f"{index}.npy", points.astype(np.float32))
            csv.writer(file).writerow([f"{index}.npy", label])
