"""The regressor, and the task ``feature_regression`` that it trains."""

import warnings

import numpy as np
import pytest
from omegaconf import OmegaConf
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score

from skiprnn_plugin import SkipRNNClassifier, SkipRNNRegressor
from skiprnn_plugin.cli.plot import main as plot
from skiprnn_plugin.cli.predict import main as predict
from skiprnn_plugin.cli.report import main as report
from skiprnn_plugin.data.features import FolderFacts, Statistics
from skiprnn_plugin.estimator_inputs import as_targets
from skiprnn_plugin.tasks.feature_regression import FeatureRegressionConfig, FeatureRegressionTask
from skiprnn_plugin.training import choose_checkpoint

from . import command_line
from .command_line import ROOT
from .forked import run_forked


def small(**params):
    return SkipRNNRegressor(**{"hidden_size": 8, "max_updates": 4, "random_state": 0, "progress": False, **params})


def make_recordings(size, seed):
    """Noise of 20 to 40 samples of 2 numbers, the mean of the first of which is the target."""
    rng = np.random.default_rng(seed)
    targets = rng.uniform(0, 1, size)
    recordings = [0.3 * rng.normal(size=(rng.integers(20, 41), 2)) + [target, 0] for target in targets]
    return recordings, targets


def test_learns_numbers_in_their_unit():
    recordings, targets = make_recordings(120, seed=0)
    y = np.stack([1e5 + 3 * targets, -targets], 1)
    model = small(hidden_size=16, learning_rate=1e-2, max_updates=120).fit(recordings[:80], y[:80])
    predicted = model.predict(recordings[80:])
    assert predicted.shape == (40, 2) and predicted.dtype == np.float64
    score = r2_score(y[80:], predicted)
    assert score > 0.7 and model.score(recordings[80:], y[80:]) == pytest.approx(score)
    used = model.used_samples(recordings)
    assert [len(row) for row in used] == [len(recording) for recording in recordings]


@pytest.mark.thorough
def test_a_target_fraction_is_reached():
    recordings, targets = make_recordings(160, seed=0)
    options = {"hidden_size": 16, "learning_rate": 5e-3, "max_updates": 2000, "target_fraction": 0.3}
    model = small(**options).fit(recordings[:120], targets[:120])
    used = np.mean([row.mean() for row in model.used_samples(recordings[120:])])
    assert 0.2 < used < 0.4 and model.score(recordings[120:], targets[120:]) > 0.8


def test_the_error_is_in_the_unit_of_the_targets_and_the_loss_is_not():
    """So that a budget means the same in any unit."""
    recordings, targets = make_recordings(30, seed=0)
    first, second = (small().fit(recordings, y).history_[-1] for y in (targets, 1000 * targets - 7))
    assert second["mse"] == pytest.approx(1e6 * first["mse"], rel=1e-3)
    assert second["task_loss"] == pytest.approx(first["task_loss"], rel=1e-3)


@pytest.mark.parametrize("outputs", [None, 1, 2])
def test_is_saved_and_predicts_in_the_shape_of_its_targets(outputs, tmp_path, capsys):
    recordings, targets = make_recordings(12, seed=0)
    y = targets if outputs is None else np.stack([targets] * outputs, 1)
    model = small().fit(recordings, y)
    assert model.predict(recordings).shape == y.shape
    model.save(tmp_path / "model.pt")
    loaded = SkipRNNRegressor.load(tmp_path / "model.pt")
    np.testing.assert_array_equal(loaded.predict(recordings), model.predict(recordings))
    assert loaded.n_features_in_ == 2 and loaded.get_params() == model.get_params()
    np.save(tmp_path / "one.npy", recordings[0])
    assert predict([str(tmp_path / "model.pt"), str(tmp_path / "one.npy")]) == 0
    printed = capsys.readouterr().out.splitlines()[1].split("\t")[0].split()
    np.testing.assert_allclose(list(map(float, printed)), model.predict(recordings[:1]).ravel(), rtol=1e-6)
    with pytest.raises(ValueError, match="expected a model that predicts classes, got one for SkipRNNRegressor.load"):
        SkipRNNClassifier.load(tmp_path / "model.pt")


def test_works_with_scikit_learn():
    recordings, targets = make_recordings(24, seed=0)
    scores = cross_val_score(clone(small()), recordings, targets, cv=2, error_score="raise")
    assert scores.shape == (2,) and np.isfinite(scores).all()
    search = GridSearchCV(small(), {"hidden_size": [3, 4]}, cv=2, error_score="raise").fit(recordings, targets)
    assert search.best_estimator_.predict(recordings[:3]).shape == (3,)


WITHOUT_SCIKIT_LEARN = """
import sys
import numpy as np
from sklearn.metrics import r2_score
sys.modules.update({"sklearn.base": None, "sklearn.exceptions": None})
from skiprnn_plugin import SkipRNNRegressor

X = np.random.default_rng(0).normal(size=(12, 9, 2))
for y in (X[:, 0, 0], X[:, 0, :], np.stack([X[:, 0, 0], np.ones(12)], 1)):
    model = SkipRNNRegressor(hidden_size=4, max_updates=2, random_state=0).fit(X, y)
    print(model.score(X, y), r2_score(y, model.predict(X)))
"""


def test_scores_alike_without_scikit_learn():
    process = run_forked("-c", WITHOUT_SCIKIT_LEARN, PYTHONPATH=ROOT)
    assert process.returncode == 0, process.stderr
    scores = np.array([line.split() for line in process.stdout.splitlines()], float)
    assert scores.shape == (3, 2)
    np.testing.assert_allclose(scores[:, 0], scores[:, 1])


@pytest.mark.parametrize(
    "target, validations, expected",
    [
        (None, [(0.5, 0.2), (0.1, 0.9), (0.1, 0.5)], 2),
        (0.25, [(0.1, 0.9), (0.12, 0.29), (0.3, 0.01)], 1),  # the standard error is 0.022
        (0.25, [(0.1, 0.9), (0.13, 0.29), (0.3, 0.01)], 0),
    ],
)
def test_which_checkpoint_is_chosen(target, validations, expected):
    history = [{"mse": 9 - loss, "task_loss": loss, "update_fraction": fraction} for loss, fraction in validations]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert choose_checkpoint("numbers", target)(history, 40) == expected


@pytest.mark.parametrize(
    "predicts, metric, good, expected",
    [("numbers", "mse", 0.3, 1), ("numbers", "mse", 0.01, 2), ("classes", "accuracy", 0.2, 1)],
)
def test_the_thriftiest_of_those_that_are_good_enough(predicts, metric, good, expected):
    values = [(0.4, 0.6), (0.2, 0.5), (0.1, 0.9)]
    history = [{metric: value, "update_fraction": fraction} for value, fraction in values]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert choose_checkpoint(predicts, 0.25, good_enough=good)(history, 50) == expected
    messages = [str(warning.message).partition(" on ")[0] for warning in caught]
    missed = ["good_enough: expected a checkpoint with mse 0.01 or better, the best one has 0.1"]
    assert messages == (missed if good == 0.01 else [])


def test_facts_of_earlier_versions():
    """Which had no numbers to predict."""
    facts = FolderFacts(["a", "b"], 3, targets=Statistics(np.array([1e5]), np.array([2.0])))
    state = facts.as_state()
    assert FolderFacts.from_state(state).targets.restore(np.float32([0.5])) == 1e5 + 1
    del state["targets"]
    assert FolderFacts.from_state(state) == FolderFacts(["a", "b"], 3)


@pytest.mark.parametrize(
    "y, message",
    [
        ([1.0, 2.0], r"y: expected 3 numbers, or \[3, outputs\], a row for each recording, got shape \(2,\)"),
        (["a", "b", "c"], "y: expected numbers, got <U1; SkipRNNClassifier takes classes"),
        ([1, 2, np.nan], "y: expected finite numbers, got NaN or infinity"),
        (np.zeros((3, 0)), "y: expected 3 numbers"),
        (np.zeros((3, 2, 2)), "y: expected 3 numbers"),
    ],
    ids=str,
)
def test_bad_targets(y, message):
    with pytest.raises(ValueError, match=message):
        as_targets(y, 3)


@pytest.mark.parametrize("good, message", [(-1, "a mean squared error"), (np.nan, "a finite number")])
def test_bad_good_enough(good, message):
    with pytest.raises(ValueError, match=f"good_enough: expected {message}"):
        small(good_enough=good).fit(*make_recordings(6, seed=0))


def write_folder(folder, labels):
    """A folder of features as a user makes it."""
    folder.mkdir(parents=True)
    recordings, _ = make_recordings(len(labels), seed=0)
    lines = ["sequence\tsplit\tlabel"]
    for number, (recording, label) in enumerate(zip(recordings, labels)):
        np.save(folder / f"{number}.npy", recording)
        lines.append(f"{number}\t{('train', 'train', 'valid')[number % 3]}\t{label}")
    (folder / "manifest.tsv").write_text("\n".join(lines) + "\n")
    return folder


def test_the_task_and_the_commands_on_its_runs(tmp_path, capsys):
    _, targets = make_recordings(30, seed=0)
    folder, run = write_folder(tmp_path / "data", [f"{100 * target} {-target}" for target in targets]), tmp_path / "run"
    options = ("--data-dir", folder, "--max-update", 3)
    logged = command_line.train(run, *options, task="feature_regression")["valid"][-1]["valid_mse"]
    valid = 100 * targets[2::3]
    assert logged == pytest.approx(((valid - valid.mean()) ** 2).mean() / 2, rel=0.5)  # untrained; the mean of two
    assert report([str(run)]) == 0
    assert f"| {logged:.4g} | " in capsys.readouterr().out
    assert plot(["tradeoff", str(run), "--output", str(tmp_path / "tradeoff.png")]) == 0
    assert f" | {logged:.4g} | 1 |" in capsys.readouterr().out.replace("\n", " ")
    for path in folder.glob("*"):  # the checkpoint is enough
        path.unlink()
    np.save(tmp_path / "new.npy", np.zeros((5, 2)))
    assert predict([str(run), str(tmp_path / "new.npy")]) == 0
    first, second = map(float, capsys.readouterr().out.splitlines()[1].split("\t")[0].split())
    assert 20 < first < 80 and -0.8 < second < -0.2


@pytest.mark.parametrize(
    "labels, is_same",
    [
        (["2.5", "1.5", "9", "3.5", "0.5", "7"], True),  # others are held out, and the order does not count
        (["1.5", "2.5", "7", "0.5", "3.25", "9"], False),
    ],
)
def test_a_run_is_resumed_on_the_same_numbers_alone(tmp_path, labels, is_same):
    def fingerprint(name, labels):
        folder = write_folder(tmp_path / name, labels)
        cfg = {**vars(FeatureRegressionConfig()), "seed": 1, "data_dir": str(folder)}
        return FeatureRegressionTask(OmegaConf.create(cfg)).data_fingerprint

    first = fingerprint("first", ["1.5", "2.5", "7", "0.5", "3.5", "9"])
    assert (first == fingerprint("second", labels)) == is_same


@pytest.mark.parametrize(
    "labels, message",
    [
        (["1.5", "2.5", "up"], "manifest.tsv:4: label: expected finite numbers, got 'up'"),
        (["1.5 1", "2.5", "1"], "manifest.tsv:3: label: expected 2 finite numbers, as the first label has, got '2.5'"),
        (["1.5", "2.5", "1 2"], "manifest.tsv:4: label: expected 1 numbers, as in split train, got '1 2'"),
        (["1.5", "inf", "1"], "manifest.tsv:3: label: expected 1 finite numbers, as the first label has, got 'inf'"),
    ],
)
def test_wrong_labels(tmp_path, labels, message):
    folder = write_folder(tmp_path / "data", labels)
    with pytest.raises(ValueError, match=message):
        command_line.train(tmp_path / "run", "--data-dir", folder, task="feature_regression")
