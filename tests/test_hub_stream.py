"""Trained models that read samples one by one."""

import pickle

import numpy as np
import pytest
import torch

from skiprnn_plugin.data.features import Statistics
from skiprnn_plugin.hub import PredictingStream, from_pretrained

from .command_line import train
from .frozen.make import FOLDER, arrays
from .own_tasks import make_checkpoint
from .tiny_features import WIDTH, sequences, write_features


def read(stream, array):
    """Read an array [T, D] as a device would, which measures only the wanted samples. Returns which these were."""
    stream.reset()
    used = np.zeros(len(array), bool)
    while (step := int(stream.wanted[0])) < len(array):
        stream.skip(step - stream.time)
        stream.update(array[step][None])
        used[step] = True
    stream.skip(len(array) - stream.time)
    return used


def check(hub, stream, inputs):
    for array, expected, used in zip(inputs, hub.predict(inputs), hub.used_samples(inputs)):
        np.testing.assert_array_equal(read(stream, array), used)
        np.testing.assert_allclose(stream.prediction, expected[None], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["skip_gru", "skip_lstm"])
def test_predicts_as_the_hub(name):
    hub = from_pretrained(FOLDER / f"{name}.pt")
    check(hub, hub.stream(), arrays(name))
    rows = hub.stream(2)
    rows.feed(np.stack([arrays(name)[0], arrays(name)[1][:12]]))
    rows = pickle.loads(pickle.dumps(rows))
    rows.feed(arrays(name)[1][None, 12:], rows=[1])
    np.testing.assert_allclose(rows.prediction, hub.predict(arrays(name)[:2]), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(rows.predict([1, 0]), rows.prediction[::-1], rtol=1e-6)
    assert rows.predict(1).shape == rows.prediction[:1].shape
    assert rows.time.tolist() == [12, 30] and rows.batch_size == 2 and rows.output.shape == (2, 4)
    before = rows.prediction
    for parameter in hub.model.parameters():  # as if it were trained further
        parameter.data.zero_()
    np.testing.assert_array_equal(rows.prediction, before)


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    """A model of features that are normalised."""
    folder = tmp_path_factory.mktemp("features")
    write_features(folder / "data")
    statistics = {"mean": np.array([3.0, 0.0, -1.0]), "std": np.array([5.0, 0.0, 2.0])}
    np.savez(folder / "data" / "statistics.npz", **statistics)
    options = ("--data-dir", folder / "data", "--normalize", "--update-bias", -1, "--max-update", 1)
    train(folder / "run", *options, task="feature_classification")
    return from_pretrained(folder / "run", "checkpoint_last.pt")


def test_normalises_as_the_model(features):
    check(features, features.stream(), [array for *_, array in sequences()])
    first = sequences()[0][-1][:1]
    a, b = features.stream(), features.model.rnn.stream()
    a.update(first)
    b.update(features.encode(first))
    assert a.state.h.equal(b.state.h)


@pytest.mark.parametrize("x", [np.full((1, 3), np.nan), [[1e40, 0, 0]]], ids=["nan", "large"])
def test_refuses_what_is_not_finite(features, x):
    stream = features.stream()
    with pytest.raises(ValueError, match="^x: expected finite numbers"):
        stream.update(x)
    for wrong in ([[1.0, 2]], [1.0, 2, 3], "abc", [[1j, 2, 3]]):
        with pytest.raises(ValueError, match=r"^x: expected real numbers \[1, 3\]"):
            stream.update(wrong)
    assert stream.time.tolist() == [0]


def test_refuses_a_crop_of_the_end(features, monkeypatch):
    fit = features.task.frames.fit
    monkeypatch.setattr(features.task, "frames", features.task.frames._replace(fit=type(fit)(5, "tail")))
    with pytest.raises(ValueError, match="^--crop: expected head for a stream, got tail"):
        features.stream()
    monkeypatch.setattr(features.task, "frames", features.task.frames._replace(fit=type(fit)(None, "tail")))
    features.stream()  # nothing is cropped


@pytest.mark.parametrize(
    "options, message",
    [
        (("--bidirectional",), "^bidirectional: expected False for a stream"),
        (("--arch", "random_skip_gru"), "^--update-rule: expected learned or full for a stream, got random"),
    ],
    ids=["bidirectional", "random"],
)
def test_refuses_what_needs_more_than_the_samples_so_far(tmp_path, options, message):
    train(tmp_path, *options, "--max-update", 1)
    with pytest.raises(ValueError, match=message):
        from_pretrained(tmp_path).stream()


def test_bernoulli_updates_are_those_of_predictions(tmp_path):
    train(tmp_path, "--binarize", "bernoulli", "--update-bias", 0, "--max-update", 1)
    hub = from_pretrained(tmp_path)
    inputs = [array[:7] for array in arrays("skip_gru") if len(array) >= 7]
    generator = torch.get_rng_state()
    stream, taken = hub.stream(len(inputs)), [[] for _ in inputs]
    assert torch.equal(torch.get_rng_state(), generator)  # the program's random numbers stay what they were
    while any(step < 7 for step in stream.wanted.tolist()):
        for row, step in enumerate(stream.wanted.tolist()):
            if step < 7:
                stream.skip(step - stream.time[row], row)
                stream.update(inputs[row][step][None], row)
                taken[row].append(step)
    assert taken == [used.nonzero()[0].tolist() for used in hub.used_samples(inputs)]


@pytest.mark.parametrize("task", ["words", "images"])
def test_refuses_what_is_encoded_as_a_whole(tmp_path, task):
    make_checkpoint(FOLDER / "skip_lstm.pt", task, tmp_path / "model.pt")
    with pytest.raises(ValueError, match=f"^task {task}: expected one that reads arrays step by step"):
        from_pretrained(tmp_path / "model.pt").stream()


LARGE = 1.7e9  # as Unix times: numbers of this size are 128 apart in float32


def write_regression(folder):
    """Features and numbers to predict that are large and differ little."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    lines = ["sequence\tsteps\tsplit\tlabel"]
    for number in range(12):
        array = LARGE + rng.normal(size=(5, WIDTH))
        np.save(folder / f"{number}.npy", array)
        lines.append(f"{number}\t5\t{'valid' if number < 4 else 'train'}\t{1e5 + array[:, 0].mean() - LARGE}")
    (folder / "manifest.tsv").write_text("\n".join(lines) + "\n")
    mean, std = np.full(WIDTH, LARGE), np.ones(WIDTH)
    np.savez(folder / "statistics.npz", mean=mean, std=std)


@pytest.fixture(scope="module")
def regressor(tmp_path_factory):
    folder = tmp_path_factory.mktemp("regression")
    write_regression(folder / "data")
    options = ("--data-dir", folder / "data", "--normalize", "--update-bias", -1, "--max-update", 1)
    train(folder / "run", *options, task="feature_regression")
    return from_pretrained(folder / "run", "checkpoint_last.pt")


def test_large_numbers_in_and_out(regressor):
    rng = np.random.default_rng(1)
    inputs = [LARGE + rng.normal(size=(9, WIDTH)) for _ in range(4)]
    stream, expected = pickle.loads(pickle.dumps(regressor.stream(4))), regressor.predict(inputs)
    stream.feed(np.stack(inputs))
    assert stream.prediction.dtype == np.float64 and np.ptp(expected) > 1e-3
    np.testing.assert_allclose(stream.prediction, expected, rtol=0, atol=1e-5)
    assert np.abs(stream.prediction - 1e5).max() < 10


def test_own_decode_is_used(regressor, monkeypatch):
    monkeypatch.setattr(regressor.task, "decode", lambda numbers: numbers * 0 + 7)
    assert regressor.stream().prediction.tolist() == [[7]]


def test_own_encode_is_refused(features, monkeypatch):
    class OwnTask(type(features.task)):
        def encode(self, raw):
            return super().encode(np.log1p(raw))

    monkeypatch.setattr(features.task, "__class__", OwnTask)
    with pytest.raises(ValueError, match="^task feature_classification: expected one that reads arrays step by step"):
        features.stream()


@pytest.mark.parametrize("kind", ["bfloat16", "half", "negative"])
def test_any_tensor_is_normalised(features, kind):
    values = torch.tensor([[8.0, 1, -3]])
    x = values.to(getattr(torch, kind)) if kind != "negative" else torch.complex(values, -values).conj().imag
    assert x.is_neg() == (kind == "negative")
    one, other = features.stream(), features.stream()
    one.update(x)
    other.update(x.float().resolve_neg().numpy())
    assert one.output.equal(other.output)


def test_normalising_must_not_overflow(features):
    message = (
        "^x: expected finite numbers in the range of float32 in units of the training data's standard deviation, got "
    )
    with pytest.raises(ValueError, match=message + r"1e\+39 at \[0, 2\]$"):
        features.stream().update([[0, 0, 1e39]])
    statistics = Statistics(mean=np.zeros(3), std=np.array([1.0, 1, 1e-6]))
    tiny = PredictingStream(features.stream().stream, features.model.head, "classes", statistics, None)
    with pytest.raises(ValueError, match=message + r"3e\+38 at \[0, 2\]$"):
        tiny.update([[1, 1, 3e38]])
    assert tiny.time.tolist() == [0]


def test_without_statistics_the_range_is_that_of_float32():
    with pytest.raises(
        ValueError, match=r"^x: expected finite numbers in the range of float32, got 1e\+39 at \[0, 0\]$"
    ):
        from_pretrained(FOLDER / "skip_gru.pt").stream().update(np.array([[1e39, 0]]))


@pytest.mark.parametrize(
    "rows, message",
    [
        ([-1], "expected rows from 0 to 1, got -1"),
        ([0, 7], "expected rows from 0 to 1, got 7"),
        (torch.tensor([True, False]), "expected integers"),
    ],
    ids=["negative", "none", "mask"],
)
def test_predictions_of_rows_that_do_not_exist(features, rows, message):
    with pytest.raises(ValueError, match=f"^rows: {message}"):
        features.stream(2).predict(rows)


def test_limits_of_skips():
    array = arrays("skip_gru")[1][None]
    hub = from_pretrained(FOLDER / "skip_gru.pt")
    assert array.shape[1] == 30 > hub.stream().feed(array)
    assert hub.stream(max_skip=0).feed(array) == 30 and hub.stream(min_skip=2).feed(array) <= 10
