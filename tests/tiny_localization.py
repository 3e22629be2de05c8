"""A tiny data set of labels in time: the first features, which are noisy, show which classes are present."""

import numpy as np

SIZES = {"train": 24, "valid": 9, "test": 5}
CLASSES = ["c000", "c001", "c002"]  # the last one occurs only in the split train
WIDTH = 4
FRAME_RATE = 6


def videos():
    """The name, split, annotations (class, start, end), duration and array, float32 [T, WIDTH], of each video."""
    rng, found = np.random.default_rng(0), []
    for split, size in SIZES.items():
        for number in range(size):
            duration = round(rng.uniform(1, 4), 2)
            times = np.arange(np.ceil(FRAME_RATE * duration)) / FRAME_RATE
            array = rng.normal(size=(len(times), WIDTH)).astype(np.float32)
            annotations = []
            for label in range(number % 3, 3 if split == "train" else 2):
                start = round(rng.uniform(0, duration / 2), 2)
                end = round(start + rng.uniform(-0.2, duration), 2)  # perhaps before start, or after the video's end
                annotations.append((CLASSES[label], start, end))
                array[(start <= times) & (times <= end), label] += 4
            found.append((f"{split}{number}", split, annotations, duration, array))
    return found


def write_localization(folder, splits=("train", "valid", "test")):
    """Write a folder as ``skiprnn-prepare features`` does."""
    folder.mkdir(parents=True)
    lines, arrays = ["sequence\tsteps\tsplit\tannotations\tduration"], []
    for name, split, annotations, duration, array in videos():
        if split in splits:
            cell = ";".join(f"{label} {start:.2f} {end:.2f}" for label, start, end in annotations)
            lines.append(f"{name}\t{len(array)}\t{split}\t{cell}\t{duration}")
            arrays.append(array)
    (folder / "manifest.tsv").write_text("\n".join(lines) + "\n")
    (folder / "classes.txt").write_text("\n".join(CLASSES) + "\n")
    np.save(folder / "features.npy", np.concatenate(arrays))
    return folder
