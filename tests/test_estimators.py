"""The estimators, which work in the manner of scikit-learn."""

import enum
import io
import logging
import math
import pickle
import re
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
import pytest
import torch
from fairseq.checkpoint_utils import save_checkpoint
from fairseq.logging import metrics
from fairseq.trainer import Trainer
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skiprnn_plugin import SkipRNNClassifier
from skiprnn_plugin.cli.predict import main as predict
from skiprnn_plugin.estimator_inputs import as_labels, as_recordings, as_targets, fingerprint, name_classes
from skiprnn_plugin.parameters import draw_seed
from skiprnn_plugin.quiet import quiet_imports
from skiprnn_plugin.training import choose_checkpoint

from .command_line import ROOT, run
from .forked import run_forked
from .recordings_of_three import NAMES, make_recordings


def small(**params):
    return SkipRNNClassifier(**{"hidden_size": 8, "max_updates": 4, "random_state": 0, **params})


@pytest.fixture(scope="module")
def fitted():
    recordings, labels = make_recordings(60, seed=0)
    return SkipRNNClassifier(hidden_size=16, learning_rate=1e-2, max_updates=80, random_state=0).fit(recordings, labels)


def test_learns_and_says_which_samples_it_used(fitted):
    recordings, labels = make_recordings(30, seed=1)
    assert fitted.score(recordings, labels) > 0.9
    probabilities = fitted.predict_proba(recordings)
    assert probabilities.shape == (30, 3) and np.allclose(probabilities.sum(1), 1)
    assert (fitted.classes_ == NAMES).all() and (NAMES[probabilities.argmax(1)] == fitted.predict(recordings)).all()
    used = fitted.used_samples(recordings)
    assert [len(row) for row in used] == [len(recording) for recording in recordings]
    assert all(row.dtype == bool and row[0] for row in used)
    assert fitted.history_[-1]["num_updates"] == 80 and {"accuracy", "update_fraction"} <= fitted.history_[-1].keys()


def test_is_saved_loaded_and_pickled(fitted, capsys, tmp_path):
    """Also by skiprnn-predict, in which it has the same classes."""
    recordings, _ = make_recordings(4, seed=2)
    expected = fitted.predict_proba(recordings)
    fitted.save(tmp_path / "model.pt")
    loaded = SkipRNNClassifier.load(tmp_path / "model.pt")
    assert loaded.get_params() == fitted.get_params() and loaded.history_ == fitted.history_
    assert (loaded.classes_ == NAMES).all()
    for other in (loaded, pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(other.predict_proba(recordings), expected)
    np.save(tmp_path / "recording.npy", recordings[0])
    assert predict([str(tmp_path / "model.pt"), str(tmp_path / "recording.npy")]) == 0
    assert capsys.readouterr().out.splitlines()[1].split("\t")[0] == fitted.predict(recordings)[0]
    assert [path.name for path in tmp_path.glob("model*")] == ["model.pt"]


def test_repeats_by_the_seed_and_leaves_the_programs_random_numbers():
    recordings, labels = make_recordings(12, seed=0)
    states = []
    for seed in (1, 1, 2):
        torch.manual_seed(5)
        np.random.seed(5)
        probabilities = small(random_state=seed).fit(recordings, labels).predict_proba(recordings)
        states.append((probabilities, torch.rand(3).tolist(), np.random.rand(3).tolist()))
    assert (states[0][0] == states[1][0]).all() and (states[0][0] != states[2][0]).any()
    assert states[0][1:] == states[1][1:] == states[2][1:]
    torch.manual_seed(5)
    assert torch.rand(3).tolist() == states[0][1]


@pytest.mark.parametrize(
    "labels", [NAMES, np.array([2, 7, -1], np.int8), np.array([True, False, True]), NAMES.astype(object)], ids=str
)
def test_classes_of_any_type(labels, tmp_path):
    recordings, y = make_recordings(12, seed=0, labels=labels)
    model = small().fit(recordings, y)
    model.save(tmp_path / "model.pt")
    for other in (model, SkipRNNClassifier.load(tmp_path / "model.pt")):
        assert (other.classes_ == np.unique(labels)).all()
        assert other.classes_.dtype == labels.dtype or labels.dtype == object
        assert set(other.predict(recordings)) <= set(labels)


@pytest.mark.parametrize(
    "names, expected",
    [
        (["0", "1", "11", "-2"], [0, 1, 11, -2]),
        (["1", "up"], ["1", "up"]),
        (["1", "01"], ["1", "01"]),
        (["1", "9" * 19], ["1", "9" * 19]),
    ],
    ids=str,
)
def test_classes_of_skiprnn_train(names, expected):
    """Whose data hold whole numbers as texts; other texts stay as they are."""
    model = SkipRNNClassifier()
    model.checkpoint_, model._hub = b"", mock.Mock(class_names=names)
    model._hub.to.return_value = model._hub
    model._restore({})
    assert model.classes_.tolist() == expected


@pytest.mark.parametrize(
    "arrays, labels, is_same",
    [
        ([[[1.0, 2.0]]], ["a"], True),
        ([[[1.0], [2.0]]], ["a"], False),
        ([[[1.0, 3.0]]], ["a"], False),
        ([[[1.0, 2.0]]], ["b"], False),
    ],
)
def test_a_fingerprint_tells_other_shapes_numbers_and_labels(arrays, labels, is_same):
    first = fingerprint([np.array([[1.0, 2.0]])], ["a"])
    assert (fingerprint([np.array(array) for array in arrays], labels) == first) == is_same


def test_arrays_of_equal_recordings():
    """[N, T, D] and a list of [T, D] are the same, as are [N, T] and [N, T, 1]."""
    block, y = np.random.default_rng(0).normal(size=(9, 20, 2)), np.arange(9) % 3
    for given, same in ((block, list(block)), (block[:, :, 0], block[:, :, :1])):
        first, second = (small().fit(X, y).predict_proba(X) for X in (given, same))
        np.testing.assert_array_equal(first, second)


def test_one_recording_of_one_channel_is_not_many():
    """[T, 1] in place of [1, T, 1], whereas [N, T] are N recordings."""
    block, y = np.random.default_rng(0).normal(size=(9, 20)), np.arange(9) % 3
    model = small().fit(block, y)
    assert model.predict(block).shape == (9,) and model.predict([block[:, :1]]).shape == (1,)
    for one in (block[:, :1], torch.tensor(block[:, :1])):
        with pytest.raises(ValueError, match=r"X: expected a list .* got one array \(9, 1\). Reshape your data"):
            model.predict(one)


def test_large_numbers_that_differ_little(fitted):
    """As times and pressures do."""
    recordings, labels = make_recordings(60, seed=0)
    moved = [1.7e9 + 0.1 * recording for recording in recordings]
    model = SkipRNNClassifier(hidden_size=16, learning_rate=1e-2, max_updates=80, random_state=0).fit(moved, labels)
    expected = fitted.predict_proba(recordings)
    np.testing.assert_allclose(model.predict_proba(moved), expected, atol=0.02)
    constant = [np.insert(recording, 0, 0.1, 1) for recording in recordings[:12]]  # whose deviation is a rounding error
    other = small().fit(constant, labels[:12])
    assert (other.hub_.task.facts.statistics.scale[0] == 1) and np.isfinite(other.predict_proba(constant)).all()


def test_a_model_of_a_gpu_predicts_without_one(tmp_path):
    recordings, labels = make_recordings(12, seed=0)
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match="device: expected cpu or None, as torch finds no GPU here, got 'cuda'"):
        small(device="cuda").fit(recordings, labels)
    model = small().fit(recordings, labels)
    expected = model.predict(recordings)
    model.set_params(device="cuda")  # as if loaded from a file that was written elsewhere
    with pytest.warns(UserWarning, match="device: torch finds no GPU here, so the model predicts on the CPU"):
        assert (model.predict(recordings) == expected).all()


def test_works_with_scikit_learn():
    recordings, labels = make_recordings(18, seed=0)
    model = clone(small(cell="lstm"))
    assert model.get_params()["cell"] == "lstm" and "cell='lstm'" in repr(model)
    pipeline = make_pipeline(FunctionTransformer(lambda X: [2 * recording for recording in X]), model)
    scores = cross_val_score(pipeline, recordings, labels, cv=2, error_score="raise")
    assert scores.shape == (2,) and np.isfinite(scores).all()


def test_a_search_over_numbers_of_numpy():
    recordings, labels = make_recordings(18, seed=0)
    grid = {"learning_rate": np.logspace(-3, -2, 2), "hidden_size": np.array([4]), "cell": np.array(["gru"])}
    search = GridSearchCV(small(), grid, cv=2, error_score="raise").fit(recordings, labels)
    assert search.best_params_["hidden_size"] == 4
    pickle.loads(pickle.dumps(search)).predict(recordings)


WITHOUT_SCIKIT_LEARN = """
import sys
sys.modules.update({"sklearn.base": None, "sklearn.exceptions": None})
from tests.recordings_of_three import make_recordings
from skiprnn_plugin import SkipRNNClassifier

recordings, labels = make_recordings(12, seed=0)
model = SkipRNNClassifier(hidden_size=8).set_params(max_updates=2, random_state=0)
for call in (lambda: model.predict(recordings), lambda: model.set_params(units=3)):
    try:
        call()
    except (AttributeError, ValueError) as error:
        print(error)
score = model.fit(recordings, labels).score(recordings, labels)
print(score == (model.predict(recordings) == labels).mean(), model.get_params()["max_updates"])
"""


def test_works_without_scikit_learn():
    process = run_forked("-c", WITHOUT_SCIKIT_LEARN, PYTHONPATH=ROOT)
    assert process.returncode == 0, process.stderr
    not_fitted, unknown, rest = process.stdout.splitlines()
    assert not_fitted == "SkipRNNClassifier: expected a call of fit before, got none"
    assert unknown.startswith("units: expected one of cell, hidden_size") and rest == "True 2"


def test_a_target_is_for_the_budget():
    recordings, labels = make_recordings(12, seed=0)
    with pytest.warns(UserWarning) as caught:
        model = small(target_fraction=0.01).fit(recordings, labels)
    (message,) = [str(warning.message) for warning in caught if "target" in str(warning.message)]
    assert re.match("target_fraction: .* of the samples are used, where 1.0% are wanted", message)
    assert model.hub_.cfg.criterion.target_fraction == 0.01


def measured(accuracy, fraction):
    return {"accuracy": accuracy, "update_fraction": fraction}


@pytest.mark.parametrize(
    "target, history, expected",
    [
        (None, [measured(0.9, 0.9), measured(1.0, 0.9), measured(1.0, 0.5)], 2),
        (0.25, [measured(1.0, 0.9), measured(1.0, 0.29), measured(1.0, 0.27), measured(0.33, 0.004)], 2),
        (0.25, [measured(0.9, 0.9), measured(0.86, 0.2)], 1),  # within the standard error, 0.04
        (0.25, [measured(1.0, 0.9), measured(55 / 56, 0.2)], 1),  # one error of 56 is no proof that it is worse
        (0.25, [measured(1.0, 0.9), measured(53 / 56, 0.2)], 0),
        (0.25, [measured(0.9, 0.9), measured(0.9, 0.4), measured(0.8, 0.2)], 1),
        (None, [measured(math.nan, 0.1), measured(0.9, 0.9)], 1),
    ],
)
def test_which_checkpoint_is_chosen(target, history, expected):
    """A gate that has closed is not preferred for its thrift."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert choose_checkpoint("classes", target)(history, 56) == expected


def test_keeps_the_checkpoint_that_is_chosen(monkeypatch):
    """Of validations after every so many training updates, and one at the end."""
    seen = []
    monkeypatch.setattr(
        "skiprnn_plugin.training.choose_checkpoint",
        lambda *options: lambda history, size: seen.append((history, size)) or 1,
    )
    model = small(max_updates=27).fit(*make_recordings(18, seed=0))
    ((history, size),) = seen
    assert [validation["num_updates"] for validation in history] == [*range(2, 27, 2), 27]
    assert size == 3  # recordings held out
    state = torch.load(io.BytesIO(model.checkpoint_), weights_only=False)
    assert state["optimizer_history"][-1]["num_updates"] == history[1]["num_updates"]


def test_a_fit_that_fails_leaves_the_model_as_it_was(tmp_path, monkeypatch):
    recordings, labels = make_recordings(12, seed=0)
    model = small().fit(recordings, labels)
    expected = model.predict(recordings)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoints").mkdir()  # in which fairseq would write what it can of a model that diverged
    with pytest.raises(ValueError, match="learning_rate: training with 1e.30 diverged"):
        model.set_params(learning_rate=1e30, max_updates=30).fit(recordings, np.resize(["x", "y"], 12))
    assert (model.predict(recordings) == expected).all() and not list(tmp_path.glob("*/*"))
    with pytest.raises(ValueError, match="learning_rate: expected a number above 0, got -1"):
        model.set_params(learning_rate=-1).fit(recordings, labels)


def test_two_fits_at_a_time_and_no_threads_left():
    recordings, labels = make_recordings(18, seed=0)
    before = threading.active_count()
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(small(batch_size=2).fit, recordings, labels) for _ in range(2)]
        first, second = (future.result().predict_proba(recordings) for future in futures)
    np.testing.assert_array_equal(first, second)
    assert threading.active_count() <= before


def test_meters_of_another_run_in_the_program():
    """They neither disturb the training nor change, although fairseq knows them by the same names."""
    recordings, labels = make_recordings(12, seed=0)
    metrics.reset()
    with metrics.aggregate("train") as meters:
        metrics.log_derived("accuracy", lambda meters: 0.5)
    small().fit(recordings, labels)
    with metrics.aggregate("train") as found:
        assert found is meters and list(found) == ["accuracy"]
    metrics.reset()


def test_the_program_logs_while_a_model_is_trained(caplog, monkeypatch):
    """As in another thread; fairseq's notes are not logged, also if a logger had a level of its own."""

    def step(self, samples):
        logging.getLogger("program").info("a step")
        return train_step(self, samples)

    train_step = Trainer.train_step
    monkeypatch.setattr(Trainer, "train_step", step)
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, "fairseq")
    small(max_updates=3).fit(*make_recordings(12, seed=0))
    assert [(record.name, record.message) for record in caplog.records] == [("program", "a step")] * 3
    levels = [logging.getLogger(name).level for name in ("fairseq", "fairseq_cli", "skiprnn_plugin")]
    assert levels == [logging.DEBUG, logging.NOTSET, logging.NOTSET]


@pytest.mark.parametrize("is_last", [0, 1])
def test_logging_is_as_before_when_the_last_of_two_threads_is_done(is_last):
    manager, handlers = logging.root.manager, logging.root.handlers[:]
    blocks = [quiet_imports(), quiet_imports()]
    assert manager.disable == 0
    for block in blocks:
        block.__enter__()
        logging.root.handlers.append(logging.NullHandler())
    for block in (blocks[1 - is_last], blocks[is_last]):
        assert manager.disable == logging.INFO
        block.__exit__(None, None, None)
    assert manager.disable == 0 and logging.root.handlers == handlers


@pytest.mark.parametrize("seed", [2**32 - 1, 2**31])
def test_trains_with_any_seed_and_whatever_the_program_does(monkeypatch, seed):
    """A model is trained in one process, also in a program that torchrun has started; a run of the program's own goes
    on with its best score."""
    monkeypatch.setattr(save_checkpoint, "best", 0.5, raising=False)
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    recordings, labels = make_recordings(12, seed=0)
    model = small(random_state=seed).fit(recordings, labels)
    assert model.predict(recordings).shape == (12,) and model.hub_.task.cfg.seed == seed
    assert save_checkpoint.best == 0.5


@pytest.mark.thorough
def test_logging_stays_as_it_was():
    code = "import logging; from tests.recordings_of_three import make_recordings\n"
    code += "from skiprnn_plugin import SkipRNNClassifier\n"
    code += "SkipRNNClassifier(hidden_size=4, max_updates=2).fit(*make_recordings(9, seed=0))\n"
    code += "print(logging.getLogger().level, logging.getLogger().handlers)"
    process = run(sys.executable, "-c", code, PYTHONPATH=ROOT)  # in which nothing has been imported yet
    assert (process.stdout, process.stderr) == ("30 []\n", "")


@pytest.mark.parametrize(
    "params, message",
    [
        ({"cell": "rnn"}, "cell: expected one of lstm, gru, got 'rnn'"),
        ({"hidden_size": 0}, "hidden_size: .*got 0"),
        ({"max_updates": 1.5}, "max_updates: .*got 1.5"),
        ({"target_fraction": 1.5}, "target_fraction: expected a fraction between 0 and 1, got 1.5"),
        ({"validation_fraction": 0}, "validation_fraction: expected a fraction between 0 and 1, got 0"),
        ({"normalize": "yes"}, "normalize: .*got 'yes'"),
        ({"random_state": -1}, "random_state: expected an integer from 0 to 4294967295, got -1"),
        ({"random_state": "a"}, "random_state: .*got 'a'"),
        ({"validation_fraction": None}, "validation_fraction: .*got None"),
        ({"learning_rate": "fast"}, "learning_rate: .*got 'fast'"),
        ({"device": "tpu"}, "device: expected one of cpu, cuda, got 'tpu'"),
    ],
    ids=str,
)
def test_bad_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        small(**params).fit(*make_recordings(6, seed=0))


@pytest.mark.parametrize(
    "X, message",
    [
        ([], "X: expected recordings, got none"),
        ("text", r"X: expected a list of arrays \[T, D\], or an array \[N, T, D\], got str"),
        (np.float64(3), r"X: expected a list of arrays \[T, D\], or an array \[N, T, D\], got shape \(\)"),
        (np.array(3), r"X: expected a list of arrays .*, got shape \(\)"),
        (torch.tensor(3.0), r"X: expected a list of arrays .*, got shape \(\)"),
        ([np.ones((3, 2)), np.ones((3, 1))], r"X\[1\]: expected 2 numbers in a sample, as in X\[0\], got 1"),
        ([np.ones((3, 2, 2))], r"X\[0\]: expected numbers \[T, D\], got float64 \(3, 2, 2\)"),
        ([np.ones((0, 2))], r"X\[0\]: expected numbers \[T, D\], got float64 \(0, 2\)"),
        ({"a": np.ones((3, 2))}, r"X: expected a list of arrays \[T, D\], or an array \[N, T, D\], got dict"),
        ([["a", "b"]], r"X\[0\]: expected numbers \[T, D\], got <U1 \(2, 1\)"),
        ([[1.0, float("nan")]], r"X\[0\]: expected finite numbers, got NaN or infinity"),
        ([[1.0], [-1e200]], r"X\[1\]: expected numbers up to 1e\+150, got 1e\+200"),
        ([np.array([[1.0], [None]], object)], r"X\[0\]: expected finite numbers, got NaN or infinity"),
        ([np.array([["1.5"]], object)], r"X\[0\]: expected numbers \[T, D\], got object \(1, 1\)"),
        ([[[1.0], [1.0, 2.0]]], r"X\[0\]: expected numbers \[T, D\], got ValueError: setting an array element"),
        ([torch.ones(3, 1).to_sparse()], r"X\[0\]: expected numbers \[T, D\], got TypeError"),
        ([[1.0], np.ma.array([1.0, 2.0], mask=[0, 1])], r"X\[1\]: expected numbers, got masked ones"),
    ],
)
def test_bad_recordings(X, message):
    with pytest.raises(ValueError, match=message):
        as_recordings(X)


@pytest.mark.parametrize(
    "size, y, message",
    [
        (3, ["a", "b"], r"y: expected 3 labels, one for each recording, got shape \(2,\)"),
        (3, ["a", "a", "a"], r"y: expected at least two classes, got one class, \['a'\]"),
        (2, ["a", "b"], "X: expected at least one class with two recordings, got one recording of each class"),
        (2, ["a", "\n"], r"y: expected a class, got"),
        (2, [0.5, 1], "y: expected classes, got continuous numbers such as 0.5, which SkipRNNRegressor predicts; "),
        (3, ["a", np.nan, "b"], "y: expected labels that are all numbers, or all texts, got nan"),
        (2, [1, "1"], "y: expected labels that are all numbers, or all texts, got 1"),
        (2, np.ma.array([1, 2], mask=[0, 1]), "y: expected a label for each recording, got masked ones"),
        (2, None, "y: SkipRNNClassifier requires y to be passed, but the target y is None"),
    ],
)
def test_bad_labels(size, y, message):
    with pytest.raises(ValueError, match=message):
        small().fit(make_recordings(size, seed=0)[0], y)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i8", "u1"])
def test_recordings_of_any_type_cause_no_warning(dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (array,) = as_recordings([np.ones((3, 1), dtype)])
    assert array.dtype == dtype


def test_texts_of_numpy_s_newer_type():
    labels = as_labels(np.array(["a", "b"], dtype=np.dtypes.StringDType()), 2)
    assert labels.dtype.kind == "U" and labels.tolist() == ["a", "b"]


@pytest.mark.parametrize("y", [np.array([1, 2, 1], dtype=object), [1, np.int64(2), 1]], ids=["objects", "list"])
def test_labels_of_mixed_types_that_are_numbers(y):
    labels = as_labels(y, 3)
    assert labels.dtype.kind == "i" and labels.tolist() == [1, 2, 1]


class Activity(str, enum.Enum):
    RUN = "run"
    RUN_UP = "run up"


@pytest.mark.parametrize("as_given", [list, lambda y: np.array(y, dtype=object)], ids=["list", "objects"])
def test_texts_of_an_enumeration(as_given):
    labels = as_labels(as_given([Activity.RUN, Activity.RUN_UP, "walk"]), 3)
    assert labels.tolist() == ["run", "run up", "walk"]


def test_labels_of_a_wider_type_than_checkpoints_hold():
    labels = as_labels(np.array([1, 2], np.longdouble), 2)
    assert labels.dtype == np.float64 and labels.tolist() == [1, 2]


@pytest.mark.parametrize(
    "recording",
    [
        np.array([[1, 2.5], [3, 4]], object),
        torch.tensor([[1, 2.5], [3, 4]], requires_grad=True),
        torch.tensor([[1, 2.5], [3, 4]], dtype=torch.bfloat16),
    ],
    ids=["objects", "gradient", "bfloat16"],
)
def test_numbers_in_other_containers(recording):
    (array,) = as_recordings([recording])
    assert array.dtype.kind == "f" and array.tolist() == [[1, 2.5], [3, 4]]
    targets, _ = as_targets(recording, 2)
    assert targets.dtype == np.float64 and targets.tolist() == [[1, 2.5], [3, 4]]


def test_numbers_too_large_once_they_are_normalised(fitted):
    recordings, _ = make_recordings(2, seed=0)
    recordings[1][3, 0] = 1e100
    for method in (fitted.predict_proba, fitted.used_samples):
        with pytest.raises(ValueError, match=r"^X\[1\]: in units of the training data's standard deviation: .*float32"):
            method(recordings)


def test_numbers_too_large_for_the_model():
    """Without normalising, it reads float32."""
    recordings, labels = make_recordings(6, seed=0)
    recordings[4][0, 0] = 1e39
    with pytest.raises(ValueError, match=r"X\[4\]: expected numbers up to 3.4\d+e\+38, got 1e\+39"):
        small(normalize=False).fit(recordings, labels)


@pytest.mark.parametrize("block", [torch.no_grad, torch.inference_mode], ids=["no_grad", "inference_mode"])
def test_a_program_with_other_settings_of_torch(block):
    recordings, labels = make_recordings(12, seed=0)
    expected = small().fit(recordings, labels).predict_proba(recordings)
    torch.set_default_dtype(torch.float64)
    try:
        with block():
            model = small().fit(recordings, labels)
            again = pickle.loads(pickle.dumps(model))  # loads its hub again
            np.testing.assert_array_equal(model.predict_proba(recordings), expected)
            np.testing.assert_array_equal(again.predict_proba(recordings), expected)
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_training_in_threads_of_such_a_program():
    recordings, labels = make_recordings(12, seed=0)
    expected = small().fit(recordings, labels).predict_proba(recordings)
    torch.set_default_dtype(torch.float64)
    try:
        with ThreadPoolExecutor(3) as pool:
            models = list(pool.map(lambda _: small().fit(recordings, labels), range(3)))
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    for model in models:
        np.testing.assert_array_equal(model.predict_proba(recordings), expected)


def test_predicts_in_batches_of_its_size(fitted):
    sizes, run = [], type(fitted.hub_).run
    with mock.patch.object(type(fitted.hub_), "run", lambda hub, x, size: sizes.append(size) or run(hub, x, size)):
        recordings, _ = make_recordings(3, seed=2)
        fitted.predict(recordings)
        fitted.used_samples(recordings)
    assert sizes == [fitted.batch_size] * 2
    with pytest.raises(ValueError, match="batch_size: expected an integer of at least 1, got None"):
        pickle.loads(pickle.dumps(fitted)).set_params(batch_size=None).predict(recordings)


def test_use_before_fit_and_with_other_recordings(fitted, tmp_path):
    for call in (lambda: small().predict([np.ones((3, 2))]), lambda: small().save(tmp_path / "model.pt")):
        with pytest.raises(NotFittedError, match="SkipRNNClassifier: expected a call of fit before, got none"):
            call()
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="X: expected 3 numbers in a sample, got 2"):
        fitted.predict([np.ones((3, 2))])
    for one in (np.ones((5, 3)), np.ones(5), torch.ones(5, 3)):  # it would be taken for 5 recordings
        with pytest.raises(ValueError, match=r"got one array \(5,.*Reshape your data: one recording goes in as \[X\]$"):
            fitted.predict(one)
    with pytest.raises(FileNotFoundError, match="no.pt: no such file"):
        SkipRNNClassifier.load(tmp_path / "no.pt")
    (tmp_path / "bad.pt").write_text("no checkpoint")
    with pytest.raises(ValueError, match="bad.pt: can't be loaded as a fairseq checkpoint"):
        SkipRNNClassifier.load(tmp_path / "bad.pt")
    with pytest.raises(ValueError, match=r"expected a file that SkipRNNClassifier.save .* got another checkpoint$"):
        SkipRNNClassifier.load("zoo:smartwatch")


def test_seeds_and_names():
    assert draw_seed("seed", np.int64(7)) == 7
    first, second = (draw_seed("seed", np.random.RandomState(0)) for _ in range(2))
    assert first == second
    assert draw_seed("seed", None) != draw_seed("seed", None)
    with pytest.raises(ValueError, match="y: expected classes that differ as texts"):
        name_classes(np.array([1, "1 "], object))


def test_a_pickle_of_an_earlier_version():
    state = SkipRNNClassifier(hidden_size=8).__getstate__()
    del state["good_enough"]
    old = SkipRNNClassifier.__new__(SkipRNNClassifier)
    old.__setstate__(state)
    assert old.get_params()["good_enough"] is None and "hidden_size=8" in repr(old)
