"""The task for labelled features through fairseq's own commands, and its models in other programs."""

import shutil

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from skiprnn_plugin.hub import from_pretrained
from skiprnn_plugin.models.skip_rnn import SkipRNNConfig, SkipRNNModel
from skiprnn_plugin.tasks.feature_classification import FeatureClassificationConfig, FeatureClassificationTask

from .. import command_line
from ..edited_checkpoint import change_task_state
from ..forked import run_forked
from ..tiny_features import LABELS, WIDTH, sequences, write_features


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = write_features(tmp_path_factory.mktemp("features") / "data")
    np.savez(folder / "statistics.npz", mean=np.ones(WIDTH), std=np.full(WIDTH, 2))
    (folder / "classes.txt").write_text("\n".join(LABELS))
    return folder


def train(data, save_dir, *options):
    return command_line.train(save_dir, "--data-dir", data, *options, task="feature_classification")


def make_task(data, **options):
    config = {**vars(FeatureClassificationConfig()), "seed": 1, "data_dir": str(data), **options}
    return FeatureClassificationTask(OmegaConf.create(config))


class Names(list):
    def index(self, *arguments):
        raise AssertionError("every name is compared, for every recording")


def test_many_classes_in_the_time_of_few(data):
    task = make_task(data)
    task.class_names = Names(task.class_names)
    task.load_dataset("train")
    labels = [item.label for item in task.items if item.split == "train"]
    dataset = task.dataset("train")
    assert [LABELS[dataset[index]["target"]] for index in range(len(dataset))] == labels


def test_trains_validates_and_predicts_in_a_fresh_process(data, tmp_path):
    """Afterwards the sequences are deleted, and the other files that the model needs are moved."""
    lengths = ("--sequence-length", 5, "--normalize")
    options = ("--lr", 0.03, "--batch-size", 8, "--max-update", 16, "--num-workers", 2)
    stats = train(data, tmp_path / "run", *lengths, *options)
    assert stats["valid"][-1]["valid_accuracy"] == 1
    moved = shutil.copytree(data, tmp_path / "moved")
    (test,) = command_line.validate(
        tmp_path / "run/checkpoint_last.pt",
        *("--valid-subset", "test", "--data-dir", moved),
        task="feature_classification",
    )["test"]
    assert test["test_accuracy"] == 1 and test["test_bsz"] == 5
    for path in (moved / "manifest.tsv", *moved.glob("*.npy")):
        path.unlink()
    code = f"""
import numpy as np
from skiprnn_plugin.hub import from_pretrained
hub = from_pretrained({str(tmp_path / "run")!r}, data_dir="moved")
arrays = [np.full((steps, 3), value) for steps, value in ((2, 4), (8, -4))]
print([hub.task.class_names[row.argmax()] for row in hub.predict(arrays)], hub.used_samples(arrays)[0].shape)
"""
    process = run_forked("-c", code, cwd=tmp_path, PYTHONPATH=command_line.ROOT)
    assert process.stdout == "['up', 'down'] (5,)\n", process.stderr


@pytest.mark.parametrize(
    "options, steps",
    [
        ((), [len(array) for _, split, _, array in sequences() if split == "valid"]),
        (("--sequence-length", 4), [4]),
        (("--sequence-length", 4, "--padding", "masked"), [min(4, len(s[3])) for s in sequences() if s[1] == "valid"]),
    ],
    ids=["as-they-are", "data", "masked"],
)
def test_steps(data, tmp_path, options, steps):
    (valid,) = train(data, tmp_path, "--arch", "full_gru", "--max-update", 1, *options)["valid"]
    assert valid["valid_updates"] == pytest.approx(np.mean(steps), abs=1e-3) and valid["valid_update_fraction"] == 1
    assert valid["valid_updates_std"] == pytest.approx(np.std(steps), abs=1e-3)


@pytest.mark.parametrize("crop, padding", [("head", "data"), ("tail", "data"), ("tail", "masked")])
def test_encodes_as_in_training(data, crop, padding):
    task = make_task(data, sequence_length=4, crop=crop, padding=padding, normalize=True)
    task.load_dataset("train")
    for index, (*_, array) in enumerate(sequences()[:24]):
        np.testing.assert_array_equal(task.encode(array), task.dataset("train")[index]["x"])
    x = task.encode(np.array([[5, 3, 1], [1, 1, 1]]))
    assert x.dtype == np.float32 and x[:2].tolist() == [[2, 1, 0], [0, 0, 0]]


@pytest.mark.parametrize("normalize, expected", [(True, [2, 1, 0]), (False, [5, 3, 1])])
def test_normalizes_only_where_that_is_asked_for(data, normalize, expected):
    assert make_task(data, normalize=normalize).encode(np.array([[5, 3, 1]])).tolist() == [expected]


@pytest.mark.parametrize(
    "raw, message",
    [
        (np.zeros((4, 2)), r"expected numbers \[T, 3\], got float64 \(4, 2\)"),
        (np.zeros(3), r"expected numbers \[T, 3\], got float64 \(3,\)"),
        ([["a", "b", "c"]], r"expected numbers \[T, 3\], got <U1 \(1, 3\)"),
        ("text", r"expected numbers \[T, 3\], got <U4 \(\)"),
        ([[0, 0, 0], [0, np.nan, 0]], r"expected finite numbers .* got nan \(step 1 of 2, feature 1, from 0\)"),
    ],
    ids=str,
)
def test_encodes_nothing_else(data, raw, message):
    with pytest.raises(ValueError, match=message):
        make_task(data).encode(raw)


def test_masked_padding_changes_nothing(data):
    task = make_task(data, padding="masked", sequence_length=6)
    task.load_dataset("valid")
    dataset = task.dataset("valid")
    model = SkipRNNModel.build_model(SkipRNNConfig(hidden_size=8, update_bias=-1), task).eval()
    samples = [dataset[index] for index in range(len(dataset))]
    batch = model(**dataset.collater(samples)["net_input"])
    assert batch.steps.tolist() == [len(sample["x"]) for sample in samples] == dataset.sizes.tolist()
    for sample, prediction, updates in zip(samples, batch.prediction, batch.updates[:, 0]):
        alone = model(**dataset.collater([sample])["net_input"])
        torch.testing.assert_close(alone.prediction[0], prediction)
        assert alone.updates[0, 0].tolist() == updates[: len(sample["x"])].tolist()


def test_classes_of_the_training_split(data, tmp_path):
    """The labels are those of the manifest if classes.txt does not exist."""
    folder = shutil.copytree(data, tmp_path / "data")
    (folder / "classes.txt").unlink()
    assert make_task(folder).class_names == LABELS
    manifest = folder / "manifest.tsv"
    manifest.write_text(manifest.read_text().replace("down", "up"))
    with pytest.raises(ValueError, match=r"at least two classes in split train of manifest.tsv, got \['up'\]"):
        make_task(folder)
    (folder / "classes.txt").write_text("up\n")
    with pytest.raises(ValueError, match=r"expected at least two classes in classes.txt, got \['up'\]"):
        make_task(folder)


@pytest.mark.parametrize("listed", [True, False], ids=["classes.txt", "only-the-manifest"])
def test_a_checkpoint_is_whole(data, tmp_path, monkeypatch, listed):
    """Classes and statistics come with it, whatever has become of the folder, and its paths hold from any folder."""
    moved = shutil.copytree(data, tmp_path / "data")
    if not listed:
        (moved / "classes.txt").unlink()
    monkeypatch.chdir(tmp_path)
    train("data", "run", "--max-update", 1, *(["--normalize"] if listed else []))
    monkeypatch.chdir("/")
    arrays = [array for *_, array in sequences()[:3]]
    before = from_pretrained(tmp_path / "run")
    expected = before.predict(arrays)
    (moved / "classes.txt").write_text("\n".join(reversed(LABELS)))
    np.savez(moved / "statistics.npz", mean=np.zeros(WIDTH), std=np.ones(WIDTH))
    hub = from_pretrained(tmp_path / "run")
    np.testing.assert_array_equal(hub.predict(arrays), expected)
    assert hub.class_names == before.class_names
    hub.task.load_dataset("valid")  # labels are names, so that another order of them changes nothing
    before.task.load_dataset("valid")
    assert hub.task.dataset("valid").targets == before.task.dataset("valid").targets
    shutil.rmtree(moved)
    hub = from_pretrained(tmp_path / "run")
    np.testing.assert_array_equal(hub.predict(arrays), expected)
    with pytest.raises(ValueError, match=r"--data-dir: .* got '.*/data'; if it was moved: .*data_dir=DIR"):
        hub.task.load_dataset("valid")


def test_a_checkpoint_of_an_earlier_version_needs_its_data(data, tmp_path):
    moved = shutil.copytree(data, tmp_path / "data")
    train(moved, tmp_path / "run", "--max-update", 1, "--normalize")
    task = from_pretrained(tmp_path / "run").task
    fingerprint = task._fingerprint(task.facts)
    change_task_state(tmp_path / "run/checkpoint_best.pt", lambda state: state.update(features=fingerprint))
    for change in (
        lambda: (moved / "classes.txt").write_text("up\ndown\n"),
        lambda: np.savez(moved / "statistics.npz", mean=np.zeros(WIDTH), std=np.ones(WIDTH)),
    ):
        change()
        with pytest.raises(ValueError, match="--data-dir: expected the classes, .*, '.*/data' has others"):
            from_pretrained(tmp_path / "run")
        shutil.copytree(data, moved, dirs_exist_ok=True)
    assert from_pretrained(tmp_path / "run").task.input_size == WIDTH
    shutil.rmtree(moved)
    with pytest.raises(ValueError, match=r"--data-dir: .* got '.*/data'; if it was moved: .*data_dir=DIR"):
        from_pretrained(tmp_path / "run")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"data_dir": ""}, "^--data-dir: expected a folder with manifest.tsv, as skiprnn-prepare .*got ''$"),
        ({"data_dir": "nowhere"}, "^--data-dir: .*got 'nowhere'$"),
        ({"sequence_length": 0}, "^--sequence-length: expected an integer of at least 1, got 0$"),
        ({"crop": "start"}, "^--crop: expected one of head, tail, got 'start'$"),
        ({"padding": "none"}, "^--padding: expected one of data, masked, got 'none'$"),
    ],
    ids=str,
)
def test_bad_options(data, options, message):
    with pytest.raises(ValueError, match=message):
        make_task(data, **options)


def test_numbers_are_not_taken_as_classes(data, tmp_path):
    """The message says which task predicts the labels of a folder that was prepared for numbers."""
    folder = shutil.copytree(data, tmp_path / "numbers")
    (folder / "classes.txt").write_text("0.5\n1.5\n")
    with pytest.raises(ValueError, match="expected a label of the 2 classes .*, got '[a-z]*'$"):
        make_task(folder).load_dataset("valid")
    (folder / "prepare.json").write_text('{"labels": "numbers"}')
    message = "got '[a-z]*'; the labels of this folder are numbers, for --task feature_regression$"
    with pytest.raises(ValueError, match=message):
        make_task(folder).load_dataset("valid")


def test_a_split_that_is_not_there(data):
    with pytest.raises(
        ValueError, match="manifest.tsv: expected sequences of split 'dev', got only test, train, valid"
    ):
        make_task(data).load_dataset("dev")


def test_a_file_that_is_not_as_the_manifest_says(data, tmp_path):
    """It is found before training, not when its turn comes."""
    folder = shutil.copytree(data, tmp_path / "data")
    np.save(folder / "train5.npy", np.zeros((99, WIDTH)))
    task = make_task(folder)
    task.load_dataset("valid")
    with pytest.raises(ValueError, match=r"train5.npy: expected shape .*, got \(99, 3\)"):
        task.load_dataset("train")


def test_statistics_of_other_features(data, tmp_path):
    folder = shutil.copytree(data, tmp_path / "data")
    np.savez(folder / "statistics.npz", mean=np.zeros(2), std=np.ones(2))
    with pytest.raises(ValueError, match="statistics.npz: expected 3 features, as the arrays have, got 2"):
        make_task(folder).load_dataset("train")
    (folder / "statistics.npz").unlink()
    assert make_task(folder).input_size == WIDTH
    with pytest.raises(ValueError, match="statistics.npz: no such file"):
        make_task(folder, normalize=True)
