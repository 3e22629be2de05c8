"""``skiprnn-predict`` reads for a user's own task what that task says."""

import io
import json
import sys

import numpy as np
import pytest
import torch

from skiprnn_plugin.cli.predict import main
from skiprnn_plugin.hub import from_pretrained
from skiprnn_plugin.tasks.presentation import Inputs

from ..frozen.make import FOLDER
from ..own_tasks import make_checkpoint
from ..own_tasks.inputs import OwnNotesTask

TASKS = ("own_notes", "own_levels", "own_subtitles", "own_films")
LEVELS = np.array([0, 0.3, 0.6, 1.0, 0.9, 0.1])


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Paths by task."""
    folder = tmp_path_factory.mktemp("checkpoints")
    for task in TASKS:
        make_checkpoint(FOLDER / "skip_lstm.pt", task, folder / f"{task}.pt")
    return {task: folder / f"{task}.pt" for task in TASKS}


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """The current folder, a new one, of the files that the tests read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("an old film\n"))
    (tmp_path / "song.NOTES").write_text("c, e, g, e, c")
    (tmp_path / "noise.notes").write_text("c, h")
    (tmp_path / "latin.notes").write_bytes(b"\xe9")
    (tmp_path / "film.txt").write_text("a very long film")
    (tmp_path / "film.mp4").write_bytes(b"")
    np.save("levels.npy", LEVELS)
    np.save("several.npy", np.stack([LEVELS, LEVELS[::-1]]))
    np.savetxt("levels.csv", LEVELS)


def lengths(*numbers):
    return np.array(numbers, dtype=np.float32)[:, None] / 10


IDS = np.array([0, 1, 2, 3, 3, 0])
# Task, what is given, and what the model reads of it
CASES = {
    "a reader of its own": ("own_notes", ["song.NOTES"], [np.array([[-1], [0], [1], [0], [-1]], dtype=np.float32)]),
    "numbers for an embedding": ("own_levels", ["levels.npy", "several.npy", "levels.csv"], [IDS, IDS, IDS[::-1], IDS]),
    "texts as numbers": (
        "own_subtitles", ["film.txt", "-", "--text", "so"], [lengths(2), lengths(1, 4, 4, 4), lengths(2, 3, 4)]
    ),
    "a reader in place of videos'": ("own_subtitles", ["film.mp4"], [lengths(1, 4, 4, 4)]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_reads_what_the_task_says(prints, checkpoints, case):
    task, arguments, expected = CASES[case]
    items = json.loads(prints(main, checkpoints[task], *arguments, "--json"))
    predictions = from_pretrained(checkpoints[task]).run([torch.tensor(array.copy()) for array in expected])
    for item, prediction, array in zip(items, predictions, expected, strict=True):
        np.testing.assert_allclose(list(item["probabilities"].values()), prediction.values, atol=1e-6)
        assert item["used"] == prediction.used.nonzero()[0].tolist() and item["steps"] == len(array)


def test_arrays_for_an_embedding_in_a_program(checkpoints):
    hub = from_pretrained(checkpoints["own_levels"])
    np.testing.assert_array_equal(hub.encode(LEVELS), IDS)
    (expected,) = hub.run([torch.tensor(IDS)])
    np.testing.assert_allclose(hub.predict(LEVELS[None])[0], expected.values, atol=1e-6)


@pytest.mark.parametrize(
    "task, arguments, message",
    [
        ("own_notes", ["levels.npy"], "levels.npy: expected a file .notes, as models of task own_notes read"),
        ("own_notes", ["--text", "c"], "--text: expected a model that reads texts, got one of task own_notes"),
        ("own_notes", ["noise.notes"], "noise.notes: expected notes c, e, g, got c, h"),
        ("own_notes", ["latin.notes"], "latin.notes: expected UTF-8 text, got a byte that is not ("),
        ("own_levels", ["film.txt"], "film.txt: expected a file .npy or .csv or .tsv or .png, as models of"),
        ("own_subtitles", ["levels.npy"], "levels.npy: expected a file .txt or .mp4, as models of task own_subtitles"),
        ("own_films", ["levels.npy"], "levels.npy: expected a video, as models of task own_films read"),
        (
            "own_films",
            ["film.mp4"],
            "--weights: expected the file that skiprnn-prepare video was given, which film",
        ),
    ],
)
def test_names_what_is_wrong(fails, checkpoints, task, arguments, message):
    assert fails(main, checkpoints[task], *arguments).startswith(f"skiprnn-predict: error: {message}")


@pytest.mark.parametrize("kinds", [("sounds",), ("numbers", "token_ids"), "texts"], ids=str)
def test_kinds_that_do_not_exist(fails, checkpoints, monkeypatch, kinds):
    monkeypatch.setattr(OwnNotesTask, "inputs", Inputs(kinds))
    message = f"task own_notes: expected inputs.kinds to be texts, and numbers or token_ids, got {kinds!r}"
    assert message in fails(main, checkpoints["own_notes"], "levels.npy")
