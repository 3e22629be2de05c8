"""``uniform``: numbers that depend on the sequence's seed and the step alone."""

import numpy as np
import pytest
import torch

from skiprnn_plugin.ops import uniform

EXTREME = [0, 1, -1, 2**31, -(2**31), 2**63 - 1, -(2**63)]


def numbers(rows, steps, first=0):
    return uniform(torch.arange(first, first + rows), steps)


@pytest.mark.parametrize("rows, steps", [(3, 7), (1, 1), (0, 4), (4, 0)])
def test_shape_and_dtype(rows, steps):
    values = numbers(rows, steps)
    assert values.shape == (rows, steps) and values.dtype == torch.float32


@pytest.mark.parametrize("rows, steps", [(200, 1000), (100000, 2), (1, 200000)], ids=str)
def test_distribution_is_uniform(rows, steps):
    values = np.sort(numbers(rows, steps, first=12345).cpu().numpy().ravel().astype(np.float64))
    count = len(values)
    assert values[0] >= 0 and values[-1] < 1
    assert abs(values.mean() - 1 / 2) < 4 * (1 / 12 / count) ** 0.5
    assert abs(values.var() - 1 / 12) < 4 * (1 / 180 / count) ** 0.5
    # Kolmogorov and Smirnov's statistic: below 1.63 / sqrt(n) in 99% of the samples of a uniform distribution
    empirical = np.arange(1, count + 1) / count
    assert max((empirical - values).max(), (values - empirical + 1 / count).max()) < 1.63 / count**0.5


def test_a_row_depends_on_its_seed_alone():
    seeds = torch.tensor([*EXTREME, 17, 0])
    together = uniform(seeds, 20)
    for row, seed in enumerate(seeds):
        assert torch.equal(together[row], uniform(seed.reshape(1), 20)[0])
    assert torch.equal(together.flip(0), uniform(seeds.flip(0), 20))


def test_more_steps_begin_with_fewer():
    seeds = torch.tensor(EXTREME)
    assert torch.equal(uniform(seeds, 5), uniform(seeds, 50)[:, :5])


def test_different_seeds_give_different_numbers():
    assert len(numbers(1000, 4).unique(dim=0)) == 1000
    assert len(uniform(torch.tensor(EXTREME), 4).unique(dim=0)) == len(EXTREME)


@pytest.mark.parametrize("lag", [1, 2, 3])
@pytest.mark.parametrize("axis", ["seeds", "steps", "both"])
def test_neighbours_are_uncorrelated(axis, lag):
    values = numbers(500, 500).cpu().numpy().astype(np.float64) - 0.5
    rows, steps = lag * (axis != "steps"), lag * (axis != "seeds")
    products = values[rows:, steps:] * values[: 500 - rows, : 500 - steps]
    # a product has mean 0 and variance 1/144
    assert abs(products.mean()) < 4 / 12 / products.size**0.5


def test_numbers_stay_the_same():
    """SplitMix64 started at the finalised seed, computed with Python's integers."""

    def mix(z):
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        return z ^ (z >> 31)

    def number(seed, step):
        return (mix((mix(seed % 2**64) + (step + 1) * 0x9E3779B97F4A7C15) % 2**64) >> 40) / 2**24

    expected = [[number(seed, step) for step in range(4)] for seed in EXTREME]
    assert uniform(torch.tensor(EXTREME), 4).tolist() == expected
