"""Mean average precision, against the official program's results and scikit-learn's."""

import csv
import json
import pickle

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

import skiprnn_plugin  # noqa: F401
from skiprnn_plugin.average_precision import ScoredPoints, average_precision, mean_average_precision, pool
from skiprnn_plugin.data.localization import evaluation_times, labels_at
from skiprnn_plugin.data.manifest import parse_annotations
from skiprnn_plugin.metrics import AveragePrecisionMeter

from .golden_cases import DIRECTORY

CHARADES = DIRECTORY / "charades"
NAN = float("nan")


def read_videos(lines):
    """The annotations and the duration of each video in a file of Charades' format."""
    return [(parse_annotations(row["actions"]), float(row["length"])) for row in csv.DictReader(lines)]


def find_targets(videos, count, num_classes):
    """The labels that are true at the evaluation points, bool [videos, count, num_classes]."""
    classes = {f"c{number:03d}": number for number in range(num_classes)}
    return np.array([labels_at(evaluation_times(length, count), labels, classes) for labels, length in videos])


@pytest.mark.parametrize("ties", ["", "_ties"])
def test_the_official_result_of_three_videos(ties):
    golden = json.loads((CHARADES / "localization_golden_tiny.json").read_text())
    targets = find_targets(read_videos(golden["csv"].splitlines()), 4, 4).reshape(12, 4)
    assert targets.astype(int).tolist() == golden["gt_classes_0_3"]
    scores = np.array(golden[f"scores{ties}"])
    expected = [NAN if precision is None else precision for precision in golden[f"ap_official_octave{ties}"]]
    got = [average_precision(*columns) for columns in zip(scores.T, targets.T)]
    assert got == pytest.approx(expected, abs=1e-9, nan_ok=True)
    assert mean_average_precision(scores, targets) == pytest.approx(golden[f"nanmean_official{ties}"], abs=1e-9)


@pytest.fixture(scope="module")
def videos():
    return golden_videos()


def golden_videos():
    with open(CHARADES / "localization_golden_157.csv", newline="") as file:
        return read_videos(file)


def golden_scores(videos, count):
    """The scores by the formula in the golden file, [60, count, 157]."""
    i, j, c = np.ogrid[:60, 1 : count + 1, :157]
    scores = ((1000 * i + j) * 1103515245 + 12345 * c) % 2147483647 / 2147483647
    names = [{label.label for label in labels} for labels, _ in videos]
    return scores + 0.5 * np.array([[f"c{number:03d}" in labels for number in range(157)] for labels in names])[:, None]


@pytest.mark.parametrize("count", [25, 100])
def test_the_official_result_of_157_classes(videos, count):
    """A meter gets the batches in another order, and one of them twice."""
    golden = json.loads((CHARADES / "localization_golden_157.json").read_text())[f"N{count}"]
    targets = find_targets(videos, count, 157)
    assert targets.sum() == golden["positives"]
    scores = golden_scores(videos, count)
    assert mean_average_precision(scores.reshape(-1, 157), targets.reshape(-1, 157)) == pytest.approx(
        golden["mAP_over_those"], abs=1e-9
    )
    meter = AveragePrecisionMeter()
    for part in (slice(40, 60), slice(0, 25), slice(25, 40), slice(0, 25)):
        batch = ScoredPoints(np.arange(60)[part], scores[part], targets[part])
        meter.update(pickle.loads(pickle.dumps(batch)))  # as between processes
    assert meter.value() == pytest.approx(golden["mAP_over_those"], abs=1e-9)
    assert meter.count_classes() == golden["classes_with_positives"] == 112
    meter.reset()
    assert np.isnan(meter.value()) and meter.count_classes() == 0


def test_without_ties_as_scikit_learn():
    rng = np.random.default_rng(0)
    scores = rng.permutation(400).reshape(100, 4).astype(np.float32)
    targets = rng.random((100, 4)) < 0.2
    expected = average_precision_score(targets, scores, average=None)
    precisions = [average_precision(*columns) for columns in zip(scores.T, targets.T)]
    assert precisions == pytest.approx(expected.tolist(), abs=1e-9)
    assert mean_average_precision(scores, targets) == pytest.approx(expected.mean(), abs=1e-9)


def test_of_equal_scores_the_first_comes_first():
    """Of the whole set, in whatever batches it comes."""
    targets, expected = np.array([True, False, False, True]), (1 + 2 / 4) / 2
    assert average_precision(np.zeros(4), targets) == expected
    parts = (slice(1, 4), slice(0, 1))
    batches = [ScoredPoints(np.arange(4)[p], np.zeros((4, 1, 1))[p], targets.reshape(4, 1, 1)[p]) for p in parts]
    assert mean_average_precision(*pool(batches)) == expected


@pytest.mark.parametrize(
    "scores, targets, expected",
    [
        ([[1.0, NAN], [2.0, 1.0]], [[1, 0], [0, 0]], 0.5),  # the class without positives does not count
        ([[1.0, NAN], [2.0, 1.0]], [[1, 0], [0, 1]], NAN),
        ([[1.0, 2.0]], [[0, 0]], NAN),
    ],
)
def test_what_is_not_a_number(scores, targets, expected):
    got = mean_average_precision(np.array(scores), np.array(targets, dtype=bool))
    assert got == pytest.approx(expected, nan_ok=True)


def test_points_stand_among_numbers():
    points = ScoredPoints(np.arange(2), np.zeros((2, 5, 3), np.float32), np.zeros((2, 5, 3), bool))
    assert float(points) == 10 and f"{points:g}" == "10"


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match=r"targets: expected scores and targets \[N, C\], got \(2, 3\) and \(3, 2\)"):
        mean_average_precision(np.zeros((2, 3)), np.zeros((3, 2), bool))
