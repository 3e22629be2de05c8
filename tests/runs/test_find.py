"""Which file of a save-dir a command takes."""

import pytest

from skiprnn_plugin.arguments import UserError
from skiprnn_plugin.runs.find import find_file


@pytest.mark.parametrize(
    "files, checkpoint, expected",
    [
        (["checkpoint_best.pt", "checkpoint_last.pt", "train.log"], None, "checkpoint_last.pt"),
        (["checkpoint_best.pt", "checkpoint_last.pt", "train.log"], "best", "checkpoint_best.pt"),
        (["checkpoint_best.pt", "train.log"], None, "train.log"),  # the best one is not the end of the training
        (["checkpoint_best.pt", "samples.png"], None, "checkpoint_best.pt"),  # skiprnn-train
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
