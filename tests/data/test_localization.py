"""Sequences with several labels at a time: which classes are present at each step, and at the evaluation points."""

import numpy as np
import pytest

import skiprnn_plugin  # noqa: F401
from skiprnn_plugin.data.features import FeatureStore, Frames
from skiprnn_plugin.data.fit import Fit
from skiprnn_plugin.data.localization import LocalizationDataset, evaluation_times, labels_at
from skiprnn_plugin.data.manifest import parse_annotations, read_manifest


def test_points_divide_before_they_multiply():
    assert evaluation_times(8.0, 4).tolist() == [0, 2, 4, 6]
    assert evaluation_times(8.53, 25)[4] == 4 / 25 * 8.53 != 4 * 8.53 / 25


def test_both_ends_count_and_an_annotation_that_ends_before_it_starts_is_never_present():
    annotations = parse_annotations("a 0.5 1.0;b 1.0 0.5;a 2.0 9.0;c 1.5 1.5")
    labels = labels_at(np.arange(6) / 2, annotations, {"a": 0, "b": 1, "c": 2})
    assert labels.T.astype(int).tolist() == [[0, 1, 1, 0, 1, 1], [0] * 6, [0, 0, 0, 1, 0, 0]]
    assert labels_at(np.arange(2), (), {"a": 0}).tolist() == [[False], [False]]


@pytest.fixture
def make(tmp_path):
    """A data set of two videos, one of 4 and one of 9 steps, at 2 steps in a second."""
    (tmp_path / "manifest.tsv").write_text(
        "sequence\tsteps\tsplit\tannotations\tduration\nv\t4\tvalid\ta 0.5 1\t2.5\nw\t9\tvalid\t\t4\n"
    )
    np.save(tmp_path / "features.npy", np.arange(13, dtype=np.float32)[:, None])
    store = FeatureStore(tmp_path, read_manifest(tmp_path, ("annotations", "duration")))

    def make(fixed=True, **fit):
        options = {"classes": ["a", "b"], "frame_rate": 2.0, "eval_points": 5}
        return LocalizationDataset(store, Frames(Fit(**{"length": None, **fit})), [0, 1], (1,), fixed, **options)

    return make


def test_batch(make):
    dataset = make()
    batch = dataset.collater([dataset[0], dataset[1]])
    assert batch["target"].shape == (2, 9, 2) and batch["net_input"]["lengths"].tolist() == [4, 9]
    assert batch["target"].nonzero().tolist() == [[0, 1, 0], [0, 2, 0]]
    # the points of the first sequence, which has four steps, are at 0, 0.5, 1, 1.5 and 2 s
    assert batch["points"]["steps"].tolist() == [[0, 1, 2, 3, 3], [0, 1, 3, 4, 6]]
    assert batch["points"]["target"].nonzero().tolist() == [[0, 1, 0], [0, 2, 0]]
    training = make(fixed=False)
    assert "points" not in training.collater([training[0], training[1]]) and training.collater([]) == {}


@pytest.mark.parametrize(
    "fit, labelled, points",
    [
        ({"length": 2}, [1], [0, 1, 1, 1, 1]),
        ({"length": 2, "crop": "tail"}, [0], [0, 0, 0, 1, 1]),
        ({"length": 6}, [1, 2], [0, 1, 2, 3, 3]),  # padding is data, but points never fall on it
        ({"length": 6, "crop": "tail", "padding": "masked"}, [1, 2], [0, 1, 2, 3, 3]),
    ],
    ids=str,
)
def test_cropped_and_padded(make, fit, labelled, points):
    sample = make(**fit)[0]
    assert len(sample["target"]) == len(sample["x"])
    assert sample["target"].nonzero()[0].tolist() == labelled
    assert sample["points"]["steps"].tolist() == points
