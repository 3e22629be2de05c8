"""The frequency discrimination task's data: the paper's distributions, and the same numbers however they are loaded."""

import numpy as np
import pytest
import torch

import skiprnn_plugin  # noqa: F401
from skiprnn_plugin.data.frequency import FrequencyDataset


def dataset(size=64, key=(7, 1), fixed=False, steps=100, sampling_period=1.0, min_period=1.0, max_period=100.0):
    return FrequencyDataset(steps, sampling_period, min_period, max_period, size=size, key=key, fixed=fixed)


def period_and_phase(data):
    """The period, in ms, and the phase, as a fraction of a period, of each wave, computed from its samples.

    With w the angle between two steps, x[k+1] + x[k-1] = 2 cos(w) x[k], and x[1] = cos(w) x[0] - sin(w) sin(phase). The
    samples must be dense enough.
    """
    x = data.x[:, :, 0].astype(np.float64)
    middle = x[:, 1:-1]
    cosine = ((x[:, 2:] + x[:, :-2]) * middle).sum(1) / (2 * middle * middle).sum(1)
    angle = np.arccos(cosine)
    phase = np.arctan2((x[:, 0] * cosine - x[:, 1]) / np.sin(angle), x[:, 0])
    return 2 * np.pi * data.times[1] / angle, phase / (2 * np.pi) % 1


def assert_uniform(values, low, high):
    """Assert that values are in the range and pass a Kolmogorov-Smirnov test for the uniform distribution, which one in
    10,000 uniform samples would fail."""
    slack = 1e-3 * (high - low)  # periods come from float32 samples
    assert low - slack < values.min() and values.max() < high + slack
    distance = np.abs(np.sort(values) - np.linspace(low, high, len(values))).max() / (high - low)
    assert distance < 2.3 / np.sqrt(len(values))


@pytest.mark.parametrize("min_period,max_period", [(1.0, 100.0), (2.0, 10.0), (5.0, 20.0)])
def test_periods_are_the_papers(min_period, max_period):
    data = dataset(size=20000, sampling_period=0.4, min_period=min_period, max_period=max_period)
    period, phase = period_and_phase(data)
    assert_uniform(period[data.target == 0], 5, 6)
    other = period[data.target == 1]
    below, above = other[other < 5.5], other[other > 5.5]
    expected = (5 - min_period) / (5 - min_period + max_period - 6)
    assert len(below) / len(other) == pytest.approx(expected, abs=0.02)
    assert below.max(initial=5) < 5.01 and 5.99 < above.min()
    # closing the gap makes the union one interval
    assert_uniform(np.concatenate([below, above - 1]), min_period, max_period - 1)
    assert_uniform(phase, 0, 1)
    assert abs(np.corrcoef(period, phase)[0, 1]) < 0.03


@pytest.mark.parametrize("sampling_period", [1.0, 0.5])
def test_samples_are_of_a_cosine(sampling_period):
    """The samples are those of a cosine whose period and phase are computed from denser samples of the same draw."""
    options = {"size": 200, "min_period": 1.0}
    period, phase = period_and_phase(dataset(**options, sampling_period=0.01, steps=10000))
    data = dataset(**options, sampling_period=sampling_period, steps=20)
    time = sampling_period * np.arange(20)
    expected = np.cos(2 * np.pi * (time + (phase * period)[:, None]) / period[:, None])
    np.testing.assert_allclose(data.x[:, :, 0], expected, atol=0.02)
    assert data.x.shape == (200, 20, 1) and data.x.dtype == np.float32 and data.target.dtype == np.int64


def test_periods_down_to_0_are_finite():
    data = dataset(size=100001, min_period=0.0)
    assert np.isfinite(data.x).all() and np.abs(data.x).max() <= 1


def test_a_generator_that_draws_0_makes_no_period_of_0():
    class Zeros:
        def random(self, size):
            return np.zeros(size)

    x, _ = dataset(min_period=0.0).draw(Zeros(), 4)
    assert np.isfinite(x).all()


@pytest.mark.parametrize("batch_size", [1, 2, 7, 16, 33])
@pytest.mark.parametrize("options", [{"fixed": False}, {"fixed": True}], ids=str)
def test_every_batch_holds_the_classes_evenly(batch_size, options):
    data = dataset(size=101, **options)
    batches = data.batch_by_size(data.ordered_indices(), max_sentences=batch_size)
    assert sorted(index for batch in batches for index in batch) == list(range(101))
    assert max(map(len, batches)) == batch_size
    for batch in batches:
        ones = int(data.collater([data[index] for index in batch])["target"].sum())
        assert ones in (len(batch) // 2, (len(batch) + 1) // 2)


def test_every_epoch_is_new_and_repeats():
    data, again = dataset(), dataset()
    first, seed = data.x.copy(), data.seed.copy()
    data.set_epoch(2)
    assert not (data.x[:, 0] == first[:, 0]).any() and not (data.seed == seed).any()
    data.set_epoch(1)
    assert (data.x == first).all() and (again.x == first).all() and (data.seed == again.seed).all()


def test_held_out_set_is_the_same_in_every_epoch():
    data = dataset(fixed=True)
    x = data.x.copy()
    data.set_epoch(5)
    assert (data.x == x).all()


def test_batch():
    data = dataset(size=5)
    batch = data.collater([data[3], data[2]])
    assert batch["id"].tolist() == [3, 2] and batch["nsentences"] == 2 and batch["ntokens"] == 200
    assert torch.equal(batch["net_input"]["x"], torch.from_numpy(data.x[[3, 2]]))
    assert batch["target"].dtype == torch.int64 and batch["target"].tolist() == [1, 0]
