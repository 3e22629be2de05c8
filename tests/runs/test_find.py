"""Which file of a save-dir a command takes."""

from pathlib import Path

import pytest

from skiprnn_plugin.arguments import UserError
from skiprnn_plugin.runs.find import find_file, find_files


@pytest.mark.parametrize(
    "files, checkpoint, expected",
    [
        (["checkpoint_best.pt", "checkpoint_last.pt", "train.log"], None, "checkpoint_last.pt"),
        (["checkpoint_best.pt", "checkpoint_last.pt", "train.log"], "best", "checkpoint_best.pt"),
        (["checkpoint_best.pt", "train.log"], None, "train.log"),  # the best one is not the end of the training
        (["checkpoint_best.pt", "samples.png"], None, "checkpoint_best.pt"),  # skiprnn-train
        (["._train.log", "train.log"], None, "train.log"),  # macOS puts the former beside it
    ],
    ids=str,
)
def test_a_file_of_a_save_dir(tmp_path, files, checkpoint, expected):
    for name in files:
        (tmp_path / name).touch()
    assert find_file(str(tmp_path), checkpoint) == tmp_path / expected


@pytest.mark.parametrize(
    "files, checkpoint, message",
    [
        (["checkpoint_best.pt"], "last", "holds no checkpoint_last.pt"),
        (["a.log", "b.log", "checkpoint_best.pt"], None, r"several logs \(a.log, b.log\): name one"),
        (["samples.png"], None, "holds no checkpoint_last.pt and no log"),
    ],
    ids=str,
)
def test_nothing_to_take(tmp_path, files, checkpoint, message):
    for name in files:
        (tmp_path / name).touch()
    with pytest.raises(UserError, match=message):
        find_file(str(tmp_path), checkpoint)


def test_many_files_in_the_time_of_few(tmp_path, monkeypatch):
    """The system is asked for each file as often, not once for each pair of them."""
    files = [tmp_path / f"{number}.log" for number in range(40)]
    for file in files:
        file.touch()
    asked = []
    stat = Path.stat
    monkeypatch.setattr(Path, "stat", lambda self, **options: asked.append(self) or stat(self, **options))
    for count in (20, 40):
        assert find_files(list(map(str, files[:count]))) == files[:count]
    assert asked.count(files[0]) == 2 * asked.count(files[-1])


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_a_file_by_two_names_is_given_twice(tmp_path, link):
    (tmp_path / "a.log").touch()
    getattr(tmp_path / "b.log", link)(tmp_path / "a.log")
    with pytest.raises(UserError, match="b.log: given twice"):
        find_files([str(tmp_path / "a.log"), str(tmp_path / "b.log")])
