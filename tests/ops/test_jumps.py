"""The number of skips until the next update and their sum, without a loop over the steps, against repeated addition."""

import ctypes
import math

import numpy as np
import pytest
import torch

from skiprnn_plugin.ops import clock, uniform
from skiprnn_plugin.ops.native import library

from .problems import engine_param

THRESHOLDS = (0.0, 0.3, 0.5, 0.99, 1.0, math.inf)


def add_by_loop(p, acc, room, threshold):
    """The specification: skips before the first v above the threshold, at most ``room``, and the sum after them."""
    count, acc, waiting = np.zeros(len(p), np.int64), acc.copy(), np.arange(len(p))
    limit, one = p.dtype.type(threshold), p.dtype.type(1)
    for _ in range(room):
        some_p, some = p[waiting], acc[waiting]
        v = some + np.where(some_p <= one - some, some_p, one - some)
        skipped = ~(v > limit)
        waiting = waiting[skipped]
        acc[waiting] = v[skipped]
        count[waiting] += 1
    return count, acc


def drawn_cases(count, dtype, seed):
    """``p`` and ``acc`` of every kind: common ones, sums halfway between two floats, sums about to reach a power of 2,
    denormal numbers, and what is special."""
    draw, info = np.random.default_rng(seed), np.finfo(dtype)
    step = 2.0**-info.nmant  # between floats from 1 on
    parts = count // 5
    log = np.exp(draw.uniform(np.log(1e-9), 0, parts))
    common = [
        (draw.uniform(0, 1, parts), np.zeros(parts)),
        (log, draw.uniform(0, 1, parts) * draw.integers(0, 2, parts)),
    ]
    scale = 2.0 ** draw.integers(-20, 0, parts)
    multiple = draw.integers(0, 2**info.nmant, parts).astype(np.float64) * step
    ties = (draw.integers(0, 60, parts) + 0.5) * step * scale, (1 + multiple) * scale
    below = (draw.integers(1, 9, parts) * step * scale, scale * (1 - draw.integers(1, 600, parts) * step))
    tiny = float(info.smallest_subnormal)
    denormal = draw.integers(0, 50, parts) * tiny, draw.integers(0, 5000, parts) * tiny
    values = (0.0, 1.0, 0.5, 0.25, 0.1, 1 / 3, 1e-6, tiny, float(info.tiny), 1 - step, math.nan)
    special = np.array([(p, acc) for p in values for acc in values]).T
    p, acc = (np.concatenate(column).astype(dtype) for column in zip(*common, ties, below, denormal, special))
    return p, acc.clip(0, 1)  # NaN stays


def add_in_c(p, acc, room, threshold):
    skips = library.load().skiprnn_skips
    results = []
    for one_p, one_acc in zip(p.tolist(), acc.tolist()):
        total = ctypes.c_float(one_acc)
        results.append((skips(one_p, total, threshold, room), total.value))
    counts, sums = zip(*results)
    return np.array(counts), np.array(sums, p.dtype)


def add_in_torch(p, acc, room, threshold):
    tensors = clock.skip_until(torch.tensor(p), torch.tensor(acc), torch.full((len(p),), room), threshold)
    return [tensor.numpy() for tensor in tensors]


every_way = pytest.mark.parametrize(
    "engine, add, dtype",
    [engine_param("native", add_in_c, np.float32)]
    + [engine_param("indexed", add_in_torch, dtype) for dtype in (np.float32, np.float64)],
)


def check(add, p, acc, room, threshold):
    with np.errstate(all="ignore"):
        expected = add_by_loop(p, acc, room, threshold)
    got = add(p, acc, room, threshold)
    np.testing.assert_array_equal(got[0], expected[0])
    np.testing.assert_array_equal(got[1], expected[1])
    return expected[0]


@every_way
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_as_repeated_addition(engine, add, dtype, threshold):
    p, acc = drawn_cases(1500, dtype, seed=0)
    for room in (0, 1, 10, 300):
        count = check(add, p, acc, room, threshold)
    assert threshold == 0.0 or (count > 30).sum() > 100


@pytest.mark.thorough
@every_way
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_as_repeated_addition_in_many_cases(engine, add, dtype, threshold):
    check(add, *drawn_cases(70000, dtype, seed=1), 3000, threshold)


@pytest.mark.thorough
@every_way
def test_half_a_million_steps(engine, add, dtype):
    p, acc = np.array([1e-6, 3e-6, 0.0, 1e-9, math.nan], dtype), np.zeros(5, dtype)
    count = check(add, p, acc, 520000, 0.5)
    assert count[0] > 400000 and count[2:].tolist() == [520000, 520000, 0]


@every_way
def test_a_sum_that_stops_growing_never_updates(engine, add, dtype):
    """In float32, 1e-9 no longer changes a sum of 2^-5."""
    room = 2**63 - 1
    p = np.array([0.0, 1e-40, 1e-9], dtype)
    count, _ = add(p, np.zeros(3, dtype), room, 0.5)
    assert count[:1].tolist() == [room]
    assert (count[1:] == room).tolist() == [True, dtype == np.float32]


def test_uniform_numbers_from_a_later_step_on():
    seeds = torch.tensor([5, -3])
    starts = torch.tensor([7, 0])
    later = uniform(seeds, 4, starts)
    assert torch.equal(later[0], uniform(seeds, 20)[0, 7:11]) and torch.equal(later[1], uniform(seeds, 4)[1])
