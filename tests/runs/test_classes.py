"""How well a model knows each class, against the official program's numbers, and what can't be measured."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from skiprnn_plugin.runs import classes
from skiprnn_plugin.runs.classes import measure

from ..test_average_precision import CHARADES, find_targets, golden_scores, golden_videos, read_videos


def measure_scores(monkeypatch, scores, targets):
    """What is measured of a model with these scores, [videos, points, classes]."""
    batches = [
        {"id": torch.arange(len(scores))[part], "points": {"steps": steps[part], "target": torch.tensor(targets[part])}}
        for steps in [torch.arange(scores.shape[1]).expand(scores.shape[:2])]
        for part in (slice(2, None), slice(0, 2))
    ]
    monkeypatch.setattr(classes, "iterate_batches", lambda loaded: batches)
    monkeypatch.setattr(
        classes,
        "run_model",
        lambda loaded, sample: (SimpleNamespace(prediction=torch.tensor(scores)[sample["id"]]), None),
    )
    task = SimpleNamespace(predicts="labels", class_names=[f"c{number:03d}" for number in range(scores.shape[2])])
    return measure(SimpleNamespace(task=task, path=Path("a.pt"), split="valid", options={}))


def test_the_official_result_of_three_videos(monkeypatch):
    golden = json.loads((CHARADES / "localization_golden_tiny.json").read_text())
    targets = find_targets(read_videos(golden["csv"].splitlines()), 4, 4)
    got = measure_scores(monkeypatch, np.reshape(golden["scores"], (3, 4, 4)), targets)
    official = {f"c{number:03d}": ap for number, ap in enumerate(golden["ap_official_octave"]) if ap is not None}
    assert dict(zip(got.names, got.values)) == pytest.approx(official, abs=1e-9)
    assert got.overall == pytest.approx(golden["nanmean_official"], abs=1e-9)


@pytest.mark.parametrize("count", [25, 100])
def test_the_official_result_of_157_classes(monkeypatch, count):
    golden = json.loads((CHARADES / "localization_golden_157.json").read_text())[f"N{count}"]
    videos = golden_videos()
    scores = golden_scores(videos, count)
    ranks = scores.reshape(-1, 157).argsort(0).argsort(0).reshape(scores.shape)  # float32 has them exactly
    got = measure_scores(monkeypatch, ranks, find_targets(videos, count, 157))
    assert (got.count, got.classes, got.positives.sum()) == (golden["rows"], 157, golden["positives"])
    values = dict(zip(got.names, got.values))
    assert len(values) == golden["classes_with_positives"]
    assert np.mean(list(values.values())) == pytest.approx(golden["mAP_over_those"], abs=1e-9)
    assert got.overall == pytest.approx(golden["mAP_over_those"], abs=1e-9)


@pytest.mark.parametrize(
    "scores, targets, message",
    [
        (np.zeros((3, 2, 2)), np.zeros((3, 2, 2), bool), "a.pt: no point of split valid has any of the 2 classes"),
        (np.full((3, 2, 2), np.nan), np.ones((3, 2, 2), bool), "a.pt: expected a model that predicts numbers, got nan"),
    ],
    ids=["no-positives", "nan"],
)
def test_nothing_to_draw(monkeypatch, scores, targets, message):
    with pytest.raises(classes.UserError, match=message):
        measure_scores(monkeypatch, scores, targets)


def test_no_accuracy_of_a_model_that_predicts_nan(monkeypatch):
    monkeypatch.setattr(classes, "iterate_batches", lambda loaded: [{"target": torch.tensor([0, 1])}])
    output = SimpleNamespace(prediction=torch.tensor([[0.0, 1.0], [torch.nan, 1.0]]))
    monkeypatch.setattr(classes, "run_model", lambda loaded, sample: (output, None))
    task = SimpleNamespace(predicts="classes", per_step=False)
    with pytest.raises(classes.UserError, match="a.pt: expected a model that predicts numbers, got nan"):
        measure(SimpleNamespace(task=task, path=Path("a.pt")))
