"""The adding task's data: the paper's distributions, and the same numbers however they are loaded."""

import numpy as np
import pytest
import torch

import skiprnn_plugin  # noqa: F401
from skiprnn_plugin.data.adding import AddingDataset, target_variance


def dataset(size=64, key=(7, 1), fixed=False, length=50, low=-0.5, high=0.5):
    return AddingDataset(length, low, high, size=size, key=key, fixed=fixed)


@pytest.mark.parametrize("length,low,high", [(50, -0.5, 0.5), (12, 0.0, 2.0), (2, -1.0, 0.0)])
def test_sequences_are_the_papers(length, low, high):
    data = dataset(size=20000, length=length, low=low, high=high)
    values, markers = data.x[:, :, 0], data.x[:, :, 1]
    assert data.x.shape == (20000, length, 2) and data.x.dtype == data.target.dtype == np.float32
    assert values.min() >= low and values.max() <= high
    np.testing.assert_allclose(values.mean(), (low + high) / 2, atol=0.02 * (high - low))
    np.testing.assert_allclose(values.var(), (high - low) ** 2 / 12, rtol=0.05)
    assert (markers.sum(1) == 2).all() and set(np.unique(markers)) <= {0, 1}
    positions = np.nonzero(markers)[1].reshape(-1, 2)
    tenth = max(length // 10, 1)
    assert set(positions[:, 0]) == set(range(tenth))
    assert set(positions[:, 1]) == set(range(length // 2, length))
    np.testing.assert_allclose(data.target, (values * markers).sum(1), atol=1e-6)
    np.testing.assert_allclose(data.target.var(), target_variance(low, high), rtol=0.05)


def test_target_variance_is_a_sixth():
    assert target_variance(-0.5, 0.5) == pytest.approx(1 / 6)


def test_every_epoch_is_new_and_repeats():
    data, again = dataset(), dataset()
    first = data.x.copy()
    data.set_epoch(2)
    assert not (data.x[:, :, 0] == first[:, :, 0]).any()
    assert not (data.seed == again.seed).any()
    data.set_epoch(1)
    assert (data.x == first).all() and (again.x == first).all() and (data.seed == again.seed).all()


def test_held_out_set_is_the_same_in_every_epoch():
    data = dataset(fixed=True)
    x, seed = data.x.copy(), data.seed.copy()
    data.set_epoch(5)
    assert (data.x == x).all() and (data.seed == seed).all()


def test_keys_tell_sets_apart():
    assert not (dataset(key=(7, 1)).x[:, :, 0] == dataset(key=(7, 2)).x[:, :, 0]).any()
    assert not (dataset(key=(7, 1)).x[:, :, 0] == dataset(key=(8, 1)).x[:, :, 0]).any()


def test_batch():
    data = dataset(size=5)
    batch = data.collater([data[3], data[1]])
    assert batch["id"].tolist() == [3, 1] and batch["nsentences"] == 2 and batch["ntokens"] == 100
    assert torch.equal(batch["net_input"]["x"], torch.from_numpy(data.x[[3, 1]]))
    assert torch.equal(batch["net_input"]["seeds"], torch.from_numpy(data.seed[[3, 1]]))
    assert torch.equal(batch["target"], torch.from_numpy(data.target[[3, 1]]))
    assert data.collater([]) == {}
