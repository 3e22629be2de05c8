"""A tiny data set of features; the mean of a sequence's first feature determines its label."""

import numpy as np

SIZES = {"train": 24, "valid": 7, "test": 5}
WIDTH = 3
LABELS = ["down", "up"]  # sequences 0, 1, 2, ... have these labels in turn


def sequences():
    """The name, split, label and array, float32 [1 to 9, WIDTH], of each sequence, one split after the other."""
    rng, found = np.random.default_rng(0), []
    for split, size in SIZES.items():
        for number in range(size):
            array = rng.normal(size=(rng.integers(1, 10), WIDTH)).astype(np.float32)
            array[:, 0] += (-4, 4)[number % 2]
            found.append((f"{split}{number}", split, LABELS[number % 2], array))
    return found


def write_features(folder, joint=False):
    """Write a folder as a user makes it: with a file for each sequence, or with one file of all sequences."""
    folder.mkdir(parents=True)
    lines = ["sequence\tsteps\tsplit\tlabel"]
    for name, split, label, array in sequences():
        lines.append(f"{name}\t{len(array)}\t{split}\t{label}")
        if not joint:
            np.save(folder / f"{name}.npy", array)
    if joint:
        np.save(folder / "features.npy", np.concatenate([array for *_, array in sequences()]))
    (folder / "manifest.tsv").write_text("\n".join(lines) + "\n")
    return folder
