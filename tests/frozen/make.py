"""Makes the checkpoints of this folder and ``expected.json``, what every later version must get from them:

    python -m tests.frozen.make

To be run only if a format is given up on purpose. Version 0.1.0 made them, with torch 2.13.0 on a CPU: a Skip GRU of
the adding task and a Skip LSTM of frequency discrimination, which skip.
"""

import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np

from ..command_line import ROOT, train, validate

FOLDER = Path(__file__).parent
COMMON = ("--hidden-size", 4, "--lr", 0.01, "--cost-per-sample", 1e-3, "--update-bias", -1, "--train-size", 160)
RUNS = {
    "skip_gru": ("adding", (*COMMON, "--arch", "skip_gru", "--max-update", 25)),
    "skip_lstm": ("frequency_discrimination", (*COMMON, "--arch", "skip_lstm", "--max-update", 25)),
}
MORE_UPDATES = 3


def arrays(name, seed=0):
    """Sequences of different lengths, one of length 0."""
    rng = np.random.default_rng(seed)
    width = {"skip_gru": 2, "skip_lstm": 1}[name]
    return [rng.normal(size=(steps, width)).astype(np.float32) for steps in (12, 30, 1, 0, 7)]


def resume(name, folder):
    """The losses of further updates, from a copy of the checkpoint."""
    task, options = RUNS[name]
    shutil.copy(FOLDER / f"{name}.pt", folder / "checkpoint_last.pt")
    stats = train(folder, *options, "--max-update", 25 + MORE_UPDATES, task=task)
    return {int(entry["num_updates"]): entry["loss"] for entry in stats["train_inner"]}


def predictions(name):
    from skiprnn_plugin.hub import from_pretrained

    hub = from_pretrained(FOLDER / f"{name}.pt")
    return {
        "predictions": hub.predict(arrays(name)).tolist(),
        "updates": ["".join(str(int(used)) for used in sequence) for sequence in hub.used_samples(arrays(name))],
    }


def validation(name):
    """What fairseq-validate logs, without speeds."""
    task, _ = RUNS[name]
    (logged,) = validate(FOLDER / f"{name}.pt", task=task)["valid"]
    return {key: value for key, value in logged.items() if not key.endswith(("wps", "wpb", "bsz"))}


def main():
    expected = {}
    os.chdir(ROOT)
    for name, (task, options) in RUNS.items():
        folder = Path("runs/frozen")  # relative, as a checkpoint holds it
        train(folder, *options, "--user-dir", "skiprnn_plugin", task=task)
        shutil.copy(folder / "checkpoint_last.pt", FOLDER / f"{name}.pt")
        shutil.rmtree(folder)
        with tempfile.TemporaryDirectory() as folder:
            expected[name] = {**predictions(name), "validation": validation(name), "losses": resume(name, Path(folder))}
    text = ",\n".join(f'"{name}": {json.dumps(values)}' for name, values in expected.items())
    (FOLDER / "expected.json.tmp").write_text(f"{{\n{text}\n}}\n")
    (FOLDER / "expected.json.tmp").replace(FOLDER / "expected.json")


if __name__ == "__main__":
    main()
