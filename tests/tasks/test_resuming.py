"""Runs that are resumed after something has happened to their data."""

import shutil

import numpy as np
import pytest
import torch

from ..command_line import train
from ..tiny_features import LABELS, WIDTH, write_features
from ..tiny_texts import write_texts

OPTIONS = {
    "feature_classification": ("--normalize",),
    "feature_regression": ("--normalize",),
    "imdb_sentiment": (),
}


@pytest.fixture
def data(tmp_path, request):
    task, folder = request.param, tmp_path / "data"
    if task == "imdb_sentiment":
        return task, write_texts(folder)
    write_features(folder)
    np.savez(folder / "statistics.npz", mean=np.ones(WIDTH), std=np.full(WIDTH, 2))
    if task == "feature_regression":
        edit(folder / "manifest.tsv", lambda text: text.replace("down", "0.5").replace("up", "1.5"))
    else:
        (folder / "classes.txt").write_text("\n".join(LABELS))
    return task, folder


def edit(path, change):
    path.write_text(change(path.read_text()))


def reverse_lines(text):
    return "\n".join(reversed(text.splitlines())) + "\n"


def reverse_classes(folder):
    edit(folder / "classes.txt", reverse_lines)


def replace_statistics(folder):
    np.savez(folder / "statistics.npz", mean=np.zeros(WIDTH), std=np.ones(WIDTH))


def name_features(folder):
    (folder / "prepare.json").write_text('{"feature_names": ["x", "y", "z"]}')


def add_sequence(folder):
    shutil.copy(folder / "train0.npy", folder / "added.npy")
    label = (folder / "manifest.tsv").read_text().splitlines()[1].split("\t")[3]
    steps = len(np.load(folder / "added.npy"))
    edit(folder / "manifest.tsv", lambda text: f"{text}added\t{steps}\ttrain\t{label}\n")


def change_unit(folder):
    edit(folder / "manifest.tsv", lambda text: text.replace("0.5", "500").replace("1.5", "1500"))


def reverse_words(folder):
    edit(folder / "input0/dict.txt", reverse_lines)


@pytest.mark.parametrize(
    "data, change",
    [
        ("feature_classification", reverse_classes),
        ("feature_classification", replace_statistics),
        ("feature_classification", name_features),
        ("feature_regression", change_unit),
        ("feature_regression", add_sequence),
        ("imdb_sentiment", reverse_words),
    ],
    indirect=["data"],
)
def test_other_data_are_refused(data, change, tmp_path):
    task, folder = data
    options = ("--data-dir", folder, *OPTIONS[task])
    train(tmp_path / "run", *options, "--max-update", 1, task=task)
    change(folder)
    saved = (tmp_path / "run/checkpoint_last.pt").read_bytes()
    with pytest.raises(ValueError, match="--data-dir: '.*/data' has other classes, .* than when the run began"):
        train(tmp_path / "run", *options, "--max-update", 2, task=task)
    assert (tmp_path / "run/checkpoint_last.pt").read_bytes() == saved


@pytest.mark.parametrize("data", ["feature_regression"], indirect=True)
def test_other_data_that_are_meant(data, tmp_path):
    task, folder = data
    options = ("--data-dir", folder, *OPTIONS[task])
    train(tmp_path / "run", *options, "--max-update", 1, task=task)
    before = read_facts(tmp_path / "run")
    change_unit(folder)
    finetune = ("--finetune-from-model", tmp_path / "run/checkpoint_last.pt")
    for run, further, last in (
        ("run", ("--reset-dataloader", "--max-update", 2), 2),
        ("run", ("--max-update", 3), 3),  # with the data that it has now
        ("other", (*finetune, "--max-update", 1), 1),
    ):
        stats = train(tmp_path / run, *options, *further, task=task)
        assert stats["train_inner"][-1]["num_updates"] == last
        np.testing.assert_allclose(read_facts(tmp_path / run), 1000 * before)


def read_facts(run):
    """The mean and the standard deviation of the labels in a run's checkpoint, [2, 1]."""
    checkpoint = torch.load(run / "checkpoint_last.pt", weights_only=False)
    return np.array(checkpoint["task_state"]["features"]["targets"])


@pytest.mark.parametrize(
    "data, change",
    [
        ("feature_classification", add_sequence),
        ("feature_classification", lambda folder: folder.rename(folder.with_name("moved"))),
        ("feature_regression", lambda folder: edit(folder / "manifest.tsv", lambda text: text.replace("1.5", "1.50"))),
        ("imdb_sentiment", lambda folder: folder.rename(folder.with_name("moved"))),
    ],
    ids=["added", "moved", "written in another way", "texts moved"],
    indirect=["data"],
)
def test_resumes_with_data_that_fit(data, change, tmp_path):
    task, folder = data
    train(tmp_path / "run", "--data-dir", folder, *OPTIONS[task], "--max-update", 1, task=task)
    change(folder)
    folder = folder if folder.exists() else folder.with_name("moved")
    stats = train(tmp_path / "run", "--data-dir", folder, *OPTIONS[task], "--max-update", 2, task=task)
    assert [line["num_updates"] for line in stats["train_inner"]] == [2]


@pytest.mark.parametrize("data", ["feature_classification"], indirect=True)
def test_a_checkpoint_of_an_earlier_version_resumes(data, tmp_path):
    """Which does not say what data it was trained on."""
    task, folder = data
    options = ("--data-dir", folder, *OPTIONS[task])
    train(tmp_path, *options, "--max-update", 1, task=task)
    checkpoint = torch.load(tmp_path / "checkpoint_last.pt", weights_only=False)
    del checkpoint["extra_state"]["FeatureClassificationTask"]["data"]
    torch.save(checkpoint, tmp_path / "checkpoint_last.pt")
    reverse_classes(folder)
    stats = train(tmp_path, *options, "--max-update", 2, task=task)
    assert [line["num_updates"] for line in stats["train_inner"]] == [2]
