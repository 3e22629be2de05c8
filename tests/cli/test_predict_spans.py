"""``skiprnn-predict`` with models that predict at every step: what is there, and when."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from skiprnn_plugin.cli.predict import main
from skiprnn_plugin.cli.predict.output import as_json, as_rows
from skiprnn_plugin.hub import Prediction, from_pretrained
from skiprnn_plugin.runs.inputs import Input
from skiprnn_plugin.runs.outcomes import find_likeliest

from ..command_line import train
from ..tiny_localization import CLASSES, FRAME_RATE, videos, write_localization


def make_hub(frame_rate):
    task = SimpleNamespace(predicts="labels", per_step=True, frame_rate=frame_rate)
    return SimpleNamespace(task=task, class_names=["walk", "run"])


VALUES = np.array([[0.5, 0], [0.25, 0.75], [0, 0.5], [0.875, 0]], dtype=np.float32)
PREDICTION = Prediction(VALUES, "walk", np.array([1, 0, 0, 1], dtype=bool), 0.002)


@pytest.mark.parametrize(
    "frame_rate, kept, expected",
    [
        (2.0, range(4), [("walk", "0.5000", "0.000", "0.500"), ("run", "0.7500", "0.500", "1.500"),
                         ("walk", "0.8750", "1.500", "2.000")]),
        (None, range(4), [("walk", "0.5000", "0", "1"), ("run", "0.7500", "1", "3"), ("walk", "0.8750", "3", "4")]),
        (2.0, range(6, 10), [("walk", "0.5000", "3.000", "3.500"), ("run", "0.7500", "3.500", "4.500"),
                             ("walk", "0.8750", "4.500", "5.000")]),
        (None, range(6, 10), [("walk", "0.5000", "6", "7"), ("run", "0.7500", "7", "9"),
                              ("walk", "0.8750", "9", "10")]),
        (None, range(2), [("walk", "0.5000", "0", "1"), ("run", "0.7500", "1", "2")]),
    ],
    ids=["seconds", "steps", "cropped before", "cropped before, in steps", "filled up"],
)  # fmt: skip
def test_rows(frame_rate, kept, expected):
    rows = as_rows(make_hub(frame_rate), Input("x.npy", None, kept), PREDICTION, 0.5)
    assert rows == [[*outcome, "2", "4", "2.000", "x.npy"] for outcome in expected]


def test_none_is_there():
    """The highest probability among the real steps."""
    read = Input("x.npy", None, range(3))
    assert as_rows(make_hub(2.0), read, PREDICTION, 0.8) == [["-", "0.7500", "-", "-", "2", "4", "2.000", "x.npy"]]


@pytest.mark.parametrize("kept, expected", [(range(3), ("run", 0.75)), (range(4), ("walk", 0.875))])
def test_the_likeliest_class_is_not_that_of_steps_that_fill_up(kept, expected):
    assert find_likeliest(make_hub(2.0), Input("x.npy", None, kept), PREDICTION) == expected


def test_json():
    assert as_json(make_hub(2.0), Input("x.npy", None, range(2, 6)), PREDICTION, 0.75) == {
        "input": "x.npy",
        "label": "walk",
        "probabilities": {"walk": [0.5, 0.25, 0, 0.875], "run": [0, 0.75, 0.5, 0]},
        "spans": [
            {"label": "run", "probability": 0.75, "start": 1.5, "end": 2.0},
            {"label": "walk", "probability": 0.875, "start": 2.5, "end": 3.0},
        ],
        "used": [0, 3],
        "steps": 4,
        "ms": 2.0,
    }


@pytest.mark.parametrize("crop", ["head", "tail"])
def test_a_trained_model(prints, tmp_path, crop):
    """Of the first 13 steps, or the last, filled up where there are fewer."""
    data = write_localization(tmp_path / "data")
    options = ("--data-dir", data, "--sequence-length", 13, "--crop", crop, "--max-update", 12, "--lr", 0.03)
    train(tmp_path / "run", *options, task="feature_localization")
    arrays = [array for *_, array in videos()[3:8]]
    paths = [tmp_path / f"{number}.npy" for number in range(5)]
    for path, array in zip(paths, arrays):
        np.save(path, array)
    head, *rows = [line.split("\t") for line in prints(main, tmp_path / "run", *paths).splitlines()]
    assert head == ["label", "probability", "start", "end", "used", "steps", "ms", "input"]
    items = json.loads(prints(main, tmp_path / "run", *paths, "--json", "--threshold", 0.4))
    hub = from_pretrained(tmp_path / "run")
    for path, array, item in zip(paths, arrays, items):
        values, first = hub.predict([array])[0][: len(array)], max(len(array) - 13, 0) if crop == "tail" else 0
        there = {(label, first + step) for step, row in enumerate(values) for label, p in zip(CLASSES, row) if p >= 0.4}
        assert there == {
            (span["label"], step)
            for span in item["spans"]
            for step in range(round(span["start"] * FRAME_RATE), round(span["end"] * FRAME_RATE))
        }
        spans = [row for row in rows if row[-1] == str(path) and row[0] != "-"]
        steps = sum(round((float(end) - float(start)) * FRAME_RATE) for _, _, start, end, *_ in spans)
        assert steps == (values >= 0.5).sum()
    assert {len(row) for row in rows} == {8} and any(item["spans"] for item in items)
    assert min(map(len, arrays)) < 13 < max(map(len, arrays))
