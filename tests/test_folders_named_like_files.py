"""Readers ignore folders that are named like the files which they look for."""

import numpy as np
import pytest

from skiprnn_plugin import checkpoints
from skiprnn_plugin.data.features import FeatureStore
from skiprnn_plugin.data.manifest import read_manifest
from skiprnn_plugin.data.mnist import read_database
from skiprnn_plugin.prepare.feature_sources import read_folder
from skiprnn_plugin.runs.find import find_file, find_history

from .idx_files import NAMES, write_digits
from .tiny_features import LABELS, write_features


@pytest.mark.parametrize("compress", [False, True], ids=["raw", "gzip"])
def test_database(tmp_path, compress):
    images, labels, *_ = write_digits(tmp_path, compress, [name.replace("-idx", ".idx") for name in NAMES])
    for name in NAMES:
        (tmp_path / name).mkdir()
    for got, expected in zip(read_database(tmp_path, "train"), (images, labels)):
        np.testing.assert_array_equal(got, expected.reshape(got.shape))


@pytest.mark.parametrize("name", ["features.npy", "classes.txt"])
def test_features(tmp_path, name):
    folder = write_features(tmp_path / "data")
    (folder / name).mkdir()
    assert read_folder(folder).classes == LABELS
    assert not FeatureStore(folder, read_manifest(folder, ())).is_joint


@pytest.mark.parametrize(
    "find, folder, file",
    [
        (checkpoints.find_checkpoint, "checkpoint_best.pt", "checkpoint_last.pt"),
        (find_file, "checkpoint_last.pt", "train.log"),
        (find_history, "tensorboard.log", "train.log"),
    ],
    ids=["hub", "last", "log"],
)
def test_save_dirs(tmp_path, find, folder, file):
    (tmp_path / folder).mkdir()
    (tmp_path / file).touch()
    assert find(str(tmp_path)) == tmp_path / file
