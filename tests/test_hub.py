"""Trained models in a program of one's own, and checkpoints of earlier versions."""

import itertools
import json
import logging
import shutil
import sys

import fairseq
import numpy as np
import pytest
import torch

from skiprnn_plugin.hub import from_pretrained
from skiprnn_plugin.models.skip_rnn import SkipRNNModel

from .command_line import ROOT, run, train
from .forked import run_forked
from .frozen import make
from .frozen.make import FOLDER, RUNS, arrays
from .own_tasks import make_checkpoint

EXPECTED = json.loads((FOLDER / "expected.json").read_text())


@pytest.fixture(params=RUNS)
def name(request):
    return request.param


def test_frozen_checkpoint_predicts_what_it_did(name):
    got = make.predictions(name)
    np.testing.assert_allclose(got["predictions"], EXPECTED[name]["predictions"], rtol=1e-4, atol=1e-6)
    assert got["updates"] == EXPECTED[name]["updates"]
    assert "0" in "".join(got["updates"]) and [len(updates) for updates in got["updates"]] == [12, 30, 1, 0, 7]


def test_frozen_checkpoint_validates_as_it_did(name):
    got = make.validation(name)  # and what later versions log beside it
    assert {key: got[key] for key in EXPECTED[name]["validation"]} == pytest.approx(
        EXPECTED[name]["validation"], rel=1e-4
    )


def test_frozen_checkpoint_resumes_as_it_did(name, tmp_path):
    expected = {int(update): loss for update, loss in EXPECTED[name]["losses"].items()}
    assert list(expected) == [26, 27, 28]
    assert make.resume(name, tmp_path) == pytest.approx(expected, rel=1e-4)


@pytest.fixture
def changed(name, tmp_path, monkeypatch):
    """The frozen checkpoint as another version would have written it: an option less and one more in each part."""
    checkpoint = torch.load(FOLDER / f"{name}.pt", weights_only=False)
    for part, missing in (("model", "gate_layers"), ("task", "valid_seed"), ("criterion", "target_updates")):
        del checkpoint["cfg"][part][missing]
        checkpoint["cfg"][part][f"new_{part}_option"] = 1
    torch.save(checkpoint, tmp_path / f"{name}.pt")
    monkeypatch.setattr(make, "FOLDER", tmp_path)
    return tmp_path


def test_other_versions_checkpoints(changed, name, tmp_path, caplog):
    test_frozen_checkpoint_predicts_what_it_did(name)
    for part in ("model", "task"):
        assert f"the checkpoint's option 'new_{part}_option' is unknown to this version: ignored" in caplog.text
    if fairseq.__version__ != "0.12.2":  # whose fairseq-validate refuses a task's unknown option
        test_frozen_checkpoint_validates_as_it_did(name)
        assert "the checkpoint's option 'new_criterion_option' is unknown to this version: ignored" in caplog.text
    (tmp_path / "resumed").mkdir()
    test_frozen_checkpoint_resumes_as_it_did(name, tmp_path / "resumed")


@pytest.mark.parametrize("options", [("--arch", "random_skip_gru"), ("--bidirectional", "--update-bias", -1)], ids=str)
def test_batches_and_padding_change_nothing(tmp_path, options):
    train(tmp_path, *options, "--max-update", 2)
    hub, sequences = from_pretrained(tmp_path), arrays("skip_gru")
    predicted, used = hub.predict(sequences), hub.used_samples(sequences)
    for batch_size in (1, 2):
        np.testing.assert_allclose(hub.predict(sequences, batch_size), predicted, atol=1e-6)
        for one, other in zip(hub.used_samples(sequences, batch_size), used):
            assert (one == other).all()
    directions = (2,) if "--bidirectional" in options else ()
    assert [steps.shape for steps in used] == [(*directions, len(sequence)) for sequence in sequences]
    assert all(steps.dtype == bool for steps in used) and not all(steps.all() for steps in used)


def test_what_it_takes_and_gives():
    hub = from_pretrained(FOLDER / "skip_lstm.pt")
    equal = np.random.default_rng(0).normal(size=(3, 9, 1))
    expected = hub.predict(list(equal))
    assert expected.dtype == np.float32 and expected.shape == (3, 2)
    np.testing.assert_allclose(expected.sum(1), 1, rtol=1e-5)  # probabilities
    for form in (equal, torch.from_numpy(equal), list(torch.from_numpy(equal)), equal.tolist()):
        np.testing.assert_array_equal(hub.predict(form), expected)
    assert hub.predict([]).shape == (0, 2) and hub.used_samples([]) == []
    initial = hub.model.head(hub.model.rnn.initial_h[-1]).softmax(-1)
    np.testing.assert_allclose(hub.predict([np.zeros((0, 1))]), initial.detach().numpy(), rtol=1e-5)


def of_task(task, tmp_path):
    make_checkpoint(FOLDER / "skip_lstm.pt", task, tmp_path / f"{task}.pt")
    return from_pretrained(tmp_path / f"{task}.pt")


def test_takes_texts_and_their_words_numbers(tmp_path):
    hub = of_task("words", tmp_path)
    vectors = hub.model.embedding.weight.detach()
    expected = from_pretrained(FOLDER / "skip_lstm.pt").predict([vectors[[2, 3]], vectors[[1]], vectors[:0]])
    texts = ["good film", "bad", ""]
    for form in (texts, np.array(texts), [np.array([2, 3]), torch.tensor([1], dtype=torch.int32), []]):
        np.testing.assert_array_equal(hub.predict(form), expected)
        assert [len(used) for used in hub.used_samples(form)] == [2, 1, 0]


def test_takes_what_the_task_encodes(tmp_path):
    hub, images = of_task("images", tmp_path), np.random.default_rng(0).integers(256, size=(5, 3, 3), dtype=np.uint8)
    expected = from_pretrained(FOLDER / "skip_lstm.pt").predict(images.reshape(5, 9, 1) / 255)
    for form in (images, images.reshape(5, 9), list(images)):
        np.testing.assert_array_equal(hub.predict(form), expected)


class Table:
    """Converts itself to an array, as tables of pandas do."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def field_of_records(array):
    records = np.zeros(len(array), [("time", "i1"), ("values", array.dtype, array.shape[1:])])
    records["values"] = array
    return records["values"]


# The same numbers in other forms
FORMS = {
    "negative strides": lambda array: array[::-1].copy()[::-1],
    "negative strides in time and features": lambda array: array[::-1, ::-1].copy()[::-1, ::-1],
    "big-endian": lambda array: array.astype(array.dtype.newbyteorder(">")),
    "read-only": read_only,
    "long double": lambda array: array.astype(np.longdouble),
    "field of records": field_of_records,
    "table": Table,
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", ["f2", "f8", "u4", "?"])
@pytest.mark.parametrize("form", FORMS)
def test_takes_arrays_of_any_memory_layout(form, dtype):
    hub = from_pretrained(FOLDER / "skip_gru.pt")
    array = (np.random.default_rng(0).normal(size=(9, 2)) > 0.5).astype(dtype)
    given = FORMS[form](array)
    (got,) = hub.predict([given])
    np.testing.assert_array_equal(got, hub.predict([array.astype(np.float32)])[0])


@pytest.mark.parametrize("form", ["negative strides", "big-endian", "read-only"])
@pytest.mark.filterwarnings("error")
def test_takes_token_ids_and_images_of_any_memory_layout(tmp_path, form):
    words, images = of_task("words", tmp_path), of_task("images", tmp_path)
    ids = np.array([2, 3, 1])
    np.testing.assert_array_equal(words.predict([FORMS[form](ids)]), words.predict([ids]))
    image = np.arange(9, dtype=np.uint8).reshape(3, 3)
    np.testing.assert_array_equal(images.predict([FORMS[form](image)]), images.predict([image]))


@pytest.mark.parametrize("given", [np.ones((3, 2)) * 1j, torch.ones(3, 2) * 1j, [[1j, 2]]], ids=["array", "", "list"])
def test_refuses_complex_numbers(given):
    message = r"arrays\[0\]: expected shape \[T, 2\], real numbers, got torch.complex"
    with pytest.raises(ValueError, match=message):
        from_pretrained(FOLDER / "skip_gru.pt").predict([given])


@pytest.mark.parametrize("task, names", [("words", ("negative", "positive")), ("images", ("0", "1"))])
def test_runs_once_for_all_that_it_says(tmp_path, task, names):
    hub = of_task(task, tmp_path)
    raw = {"words": ["good film", "bad", "film"], "images": np.arange(27, dtype=np.uint8).reshape(3, 3, 3)}[task]
    got = list(hub.run(map(hub.encode, raw), batch_size=2))
    np.testing.assert_allclose([prediction.values for prediction in got], hub.predict(raw), atol=1e-6)
    assert [prediction.label for prediction in got] == [names[index] for index in hub.predict(raw).argmax(1)]
    assert [prediction.used.tolist() for prediction in got] == [used.tolist() for used in hub.used_samples(raw)]
    assert got[0].seconds == got[1].seconds > 0


def test_runs_on_as_sequences_come():
    hub = from_pretrained(FOLDER / "skip_gru.pt")
    taken = itertools.count()
    endless = (hub.encode(np.full((3, 2), next(taken))) for _ in itertools.repeat(None))
    (first,) = itertools.islice(hub.run(endless, batch_size=2), 1)
    assert next(taken) == 2 and first.label is None and first.values.shape == (1,)


def test_stays_in_evaluation_mode(tmp_path):
    train(tmp_path, "--dropout", 0.5, "--max-update", 1)
    hub = from_pretrained(tmp_path).train()
    assert not hub.model.training
    np.testing.assert_array_equal(*(hub.predict(arrays("skip_gru")) for _ in range(2)))
    assert hub.double().predict(arrays("skip_gru")).dtype == np.float32


def test_chooses_the_best_checkpoint_or_else_the_last(tmp_path):
    for name, file in (("skip_lstm", "checkpoint_best.pt"), ("skip_gru", "checkpoint_last.pt")):
        shutil.copy(FOLDER / f"{name}.pt", tmp_path / file)
    assert from_pretrained(tmp_path).cfg.task._name == "frequency_discrimination"
    assert from_pretrained(tmp_path, "checkpoint_last.pt").cfg.task._name == "adding"
    (tmp_path / "checkpoint_best.pt").unlink()
    assert from_pretrained(str(tmp_path)).cfg.task._name == "adding"


@pytest.mark.parametrize(
    "given, message",
    [
        (np.zeros((2, 3)), r"arrays: expected a list of arrays \[T, 2\] or one \[N, T, 2\], got shape \(2, 3\)"),
        ([np.zeros((4, 2)), np.zeros((5, 3))], r"arrays\[1\]: expected shape \[T, 2\], got \(5, 3\)"),
        ([np.zeros(4)], r"arrays\[0\]: expected shape \[T, 2\], got \(4,\)"),
    ],
    ids=["one array", "width", "one dimension"],
)
@pytest.mark.parametrize("method", ["predict", "used_samples"])
def test_wrong_shapes(given, message, method):
    with pytest.raises(ValueError, match=message):
        getattr(from_pretrained(FOLDER / "skip_gru.pt"), method)(given)


@pytest.mark.parametrize(
    "task, given, message",
    [
        ("words", "good film", r"arrays: expected a list of sequences, got one str"),
        ("words", np.array(3), r"arrays: expected a list of sequences, got one ndarray"),
        ("words", ["bad", [1, 4]], r"arrays\[1\]: expected token ids from 0 to 3, got 4"),
        ("words", [[-1]], r"arrays\[0\]: expected token ids from 0 to 3, got -1"),
        ("words", [[1.0]], r"arrays\[0\]: expected a text or token ids \[T\], integers, got torch.float32 \(1,\)"),
        ("words", [[[1]]], r"arrays\[0\]: expected a text or token ids \[T\], integers, got torch.int64 \(1, 1\)"),
        ("words", [None], r"arrays\[0\]: expected a text or token ids \[T\], got NoneType"),
        ("images", np.zeros((2, 9)), r"arrays\[0\]: expected an image, uint8 \[3, 3\] or \[9\], got float64 \(9,\)"),
        ("frequency_discrimination", ["good"], r"arrays\[0\]: expected shape \[T, 1\], got str"),
    ],
    ids=str,
)
def test_what_the_task_can_not_encode(tmp_path, task, given, message):
    with pytest.raises(ValueError, match=message):
        of_task(task, tmp_path).predict(given)


def test_wrong_arguments(tmp_path):
    hub = from_pretrained(FOLDER / "skip_gru.pt")
    with pytest.raises(ValueError, match="batch_size: expected an integer of at least 1, got 0"):
        hub.predict(arrays("skip_gru"), batch_size=0)
    with pytest.raises(ValueError, match="hidden: none of the checkpoint's options"):
        from_pretrained(FOLDER / "skip_gru.pt", hidden=3)
    with pytest.raises(FileNotFoundError, match="nothing: no such file or folder"):
        from_pretrained(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match="holds no checkpoint_best.pt or checkpoint_last.pt"):
        from_pretrained(tmp_path)
    (tmp_path / "broken.pt").write_bytes((FOLDER / "skip_gru.pt").read_bytes()[:9000])
    with pytest.raises(ValueError, match="broken.pt: can't be loaded as a fairseq checkpoint"):
        from_pretrained(tmp_path, "broken.pt")


@pytest.mark.parametrize(
    "overrides, message",
    [
        ({"update_threshold": 1}, "update_threshold: expected a probability in [0, 1), got 1"),
        ({"update_threshold": "x"}, "update_threshold: expected a probability in [0, 1), got 'x'"),
        ({"min_skip": 5, "max_skip": 2}, "max_skip: expected at least min_skip, 5, got 2"),
        ({"hidden_size": 0}, "hidden_size: expected an integer of at least 1, got 0"),
    ],
)
def test_a_wrong_override_is_not_the_checkpoints_fault(overrides, message):
    with pytest.raises(ValueError) as caught:
        from_pretrained(FOLDER / "skip_gru.pt", **overrides)
    assert str(caught.value) == message


def test_an_override_that_does_not_go_with_a_stored_limit(tmp_path):
    checkpoint = torch.load(FOLDER / "skip_gru.pt", weights_only=False)
    checkpoint["cfg"]["model"]["max_skip"] = 2
    torch.save(checkpoint, tmp_path / "limited.pt")
    with pytest.raises(ValueError) as caught:
        from_pretrained(tmp_path / "limited.pt", min_skip=5)
    assert str(caught.value) == "max_skip: expected at least min_skip, 5, got 2"


def test_what_the_task_predicts_must_be_known(monkeypatch):
    hub = from_pretrained(FOLDER / "skip_gru.pt")
    monkeypatch.setattr(type(hub.task), "predicts", None)
    with pytest.raises(ValueError, match="task adding: expected its attribute predicts"):
        hub.predict(arrays("skip_gru"))


PLUGIN_OF_A_USER = """
from fairseq.tasks import register_task
from skiprnn_plugin.tasks.adding import AddingConfig, AddingTask

@register_task("adding_of_a_user", dataclass=AddingConfig)
class AddingOfAUser(AddingTask):
    pass
"""


def test_a_fresh_process(tmp_path):
    """By the plugin's way and by fairseq's, where nothing but the plugin has been imported; with a user's own task."""
    (tmp_path / "plugin_of_a_user").mkdir()
    (tmp_path / "plugin_of_a_user/__init__.py").write_text(PLUGIN_OF_A_USER)
    checkpoint = torch.load(FOLDER / "skip_gru.pt", weights_only=False)
    checkpoint["cfg"]["task"]["_name"] = "adding_of_a_user"
    torch.save(checkpoint, tmp_path / "model.pt")
    code = f"""
import sys
from skiprnn_plugin.hub import from_pretrained
folder, x = {str(tmp_path)!r}, [[[0.5, 1.0], [0.25, 1.0]]]
expected = from_pretrained({str(FOLDER)!r}, "skip_gru.pt").predict(x)
try: from_pretrained(folder, "model.pt")
except ValueError as error: print(error)
from skiprnn_plugin.models.skip_rnn import SkipRNNModel
hub = SkipRNNModel.from_pretrained(folder, checkpoint_file="model.pt", data_name_or_path=".",
                                   user_dir=folder + "/plugin_of_a_user")
print(type(hub.task).__name__, (hub.predict(x) == expected).all())
"""
    process = run_forked("-c", code, cwd=tmp_path, PYTHONPATH=ROOT)
    lines = process.stdout.splitlines()
    assert lines == [
        f"{tmp_path}/model.pt: unknown task 'adding_of_a_user'; --user-dir (user_dir) names the folder of the plugin "
        "that has it",
        "AddingOfAUser True",
    ], process.stderr


def test_fairseqs_way_takes_the_same_arguments(caplog):
    caplog.set_level(logging.INFO)
    hub = SkipRNNModel.from_pretrained(FOLDER, "skip_gru.pt", ".", skip_prob=0.25)
    assert hub.cfg.model.skip_prob == 0.25


def test_takes_tensors_that_numpy_does_not():
    hub, x = from_pretrained("zoo:smartwatch"), torch.randn(40, 6).bfloat16()
    expected = hub.predict([x.float().numpy()])
    for given in (x, x.float().requires_grad_()):
        np.testing.assert_array_equal(hub.predict([given]), expected)


@pytest.mark.thorough
def test_the_import_leaves_the_root_logger_alone():
    """fairseq sets it to DEBUG, with a handler, when it is imported."""
    program = (
        "import logging; import skiprnn_plugin.hub; root = logging.getLogger(); "
        "assert (root.level, root.handlers) == (logging.WARNING, []), root"
    )
    process = run(sys.executable, "-c", program, PYTHONPATH=ROOT)
    assert process.returncode == 0, process.stderr
