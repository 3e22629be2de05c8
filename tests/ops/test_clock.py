"""The time of the next update, against repeated addition in numpy."""

import numpy as np
import pytest
import torch

from skiprnn_plugin.ops import clock

NUMPY = {torch.float32: np.float32, torch.float64: np.float64}


def skips_by_addition(p, acc, room, threshold, dtype):
    p, acc, one = dtype(p), dtype(acc), dtype(1)
    for count in range(room):
        acc = acc + min(p, one - acc)
        if acc > dtype(threshold):
            return count
    return room


def count_skips(p, acc, room, threshold):
    """How many of the next ``room`` steps are skipped, says a clock."""
    return clock.Clock(room, None, None, threshold).find(torch.arange(len(p)), p, acc, torch.zeros_like(room))[0]


def probabilities(dtype):
    rng = np.random.default_rng(0)
    exact = [1.0, 0.5, 0.25, 0.1, 0.125, 0.05, 1 / 3, 0.01, 0.001, 0.0, 1e-30, 0.50000006, 0.49999997]
    close = [0.5 / n for n in range(1, 200)]
    drawn = [*rng.uniform(0, 1, 300), *np.exp(rng.uniform(-9, 0, 500))]
    return torch.tensor([*exact, *close, *drawn], dtype=dtype)


@pytest.mark.parametrize("dtype, room", [(torch.float32, 2**24 + 1), (torch.float16, 2**11 + 1)], ids=str)
def test_more_steps_than_the_type_of_p_can_count(dtype, room):
    p = torch.zeros(3, dtype=dtype)
    assert count_skips(p, p, torch.tensor([room, room + 2, 2 * room]), 0.5).tolist() == [room, room + 2, 2 * room]


@pytest.mark.parametrize("dtype", NUMPY, ids=["f32", "f64"])
@pytest.mark.parametrize("threshold", [0.5, 0.3, 0.9999, 0.99999999, 1.0, 0.0, -1.0, float("inf"), -float("inf")])
@pytest.mark.parametrize("room", [300, 7, 1, 0])
def test_count_skips(dtype, threshold, room):
    p = probabilities(dtype)
    acc = torch.zeros_like(p)
    acc[::3] = torch.rand(len(acc[::3]), dtype=dtype, generator=torch.Generator().manual_seed(0)) / 2
    got = count_skips(p, acc, torch.full((len(p),), room), threshold)
    expected = [skips_by_addition(*pair, room, threshold, NUMPY[dtype]) for pair in zip(p.numpy(), acc.numpy())]
    assert got.tolist() == expected


def test_rounding_decides_where_division_would_not():
    """0.1 in float32 adds up to just above 0.5 only at the sixth step (the paper's formula says the fifth)."""
    for dtype in NUMPY:
        p = torch.tensor([0.1], dtype=dtype)
        assert count_skips(p, torch.zeros(1, dtype=dtype), torch.tensor([20]), 0.5).tolist() == [5]


def test_not_a_number_updates_at_once_as_repeated_addition_does():
    p, room = torch.tensor([float("nan"), 0.0]), torch.tensor([9, 9])
    for acc in (torch.zeros(2), torch.full((2,), 0.5)):
        added = clock.add_up(p, acc, room, lambda step: torch.full((2,), 0.5))
        assert count_skips(p, acc, room, 0.5).tolist() == added.tolist() == [0, 9]


def test_accumulate_is_repeated_addition():
    p, steps = torch.tensor([0.1, 0.1, 0.4, 0.0]), torch.tensor([4, 0, 3, 5])
    expected = np.float32(0)
    for _ in range(4):
        expected = expected + np.float32(0.1)
    got = clock.accumulate(p, torch.zeros(4), steps)
    assert got[0].item() == expected and got[1:].tolist() == [0, 1, 0]


def test_next_scheduled():
    schedule = torch.tensor([[0, 1, 0, 1], [0, 0, 0, 0]], dtype=torch.bool)
    assert clock.next_scheduled(schedule).tolist() == [[1, 1, 3, 3, 5], [5, 5, 5, 5, 5]]


def test_values_of_skipped_steps_with_a_p_that_is_not_a_number():
    """As the specification has them: 1 - acc takes its place in the sum."""
    p, never, real = torch.full((1, 3), float("nan")), torch.zeros(1, 3, dtype=torch.bool), torch.ones(1, 3) > 0
    v, free = clock.values_before_rounding(p, torch.tensor([0.25]), never, real)
    assert v.tolist() == [[1.0, 1.0, 1.0]] and not free.any()
