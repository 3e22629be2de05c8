"""When a step updates, and how the gate learns."""

import math

import numpy as np
import pytest
import torch

from skiprnn_plugin.ops.reference import binarize

from ..compare import assert_close, assert_equal
from .problems import (
    Problem,
    dtype_of,
    every_cell,
    every_engine,
    for_engines_in,
    uniform_noise,
    updates_by_repeated_addition,
)

NUMPY = {torch.float32: np.float32, torch.float64: np.float64}
every_engine_and_dtype = for_engines_in(torch.float32, torch.float64)
every_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])


def constant_gate(cell, p, steps, dtype=torch.float32, batch=2):
    """A problem whose every update sets the same update probability, ``p`` but for rounding."""
    problem = Problem(cell, batch=batch, steps=steps, dtype=dtype)
    with torch.no_grad():
        problem.tensors["update_weight"].zero_()
        problem.tensors["update_bias"].fill_(math.log(p / (1 - p)))
    return problem


def exact_probability(state, p):
    """The probability that the updates of :func:`constant_gate` set, in every row the same."""
    assert_close(state.p, torch.full_like(state.p, p), "p")
    assert (state.p == state.p[0]).all()
    return state.p[0].item()


def as_rows(expected, batch, dtype):
    return torch.from_numpy(expected).to(torch.get_default_device(), dtype).expand(batch, -1)


def test_binarize_rounds_with_gradient_one():
    v = torch.tensor([0.2, 0.7], requires_grad=True)
    u = binarize(v)
    u.sum().backward()
    assert u.tolist() == [0, 1]
    assert v.grad.tolist() == [1, 1]


@every_engine
@every_cell
def test_the_gates_gradient_passes_through_rounding(cell, engine):
    problem = Problem(cell, batch=2, steps=1, dtype=dtype_of(engine))
    p = problem.tensors["p"] = torch.tensor([0.2, 0.7], dtype=dtype_of(engine), requires_grad=True)
    _, _, updates = problem.run(engine)
    assert updates.tolist() == [[0], [1]]
    assert torch.autograd.grad(updates.sum(), p)[0].tolist() == [1, 1]


@every_dtype
def test_binarize_rounds_half_to_zero(dtype):
    assert binarize(torch.tensor(0.5, dtype=dtype)).item() == 0
    assert binarize(torch.nextafter(torch.tensor(0.5, dtype=dtype), torch.tensor(1.0, dtype=dtype))).item() == 1


@every_engine_and_dtype
@every_cell
@pytest.mark.parametrize("p", [0.3, 0.1, 0.02])
def test_skips_follow_repeated_addition(cell, engine, dtype, p):
    _, state, updates = constant_gate(cell, p, steps=60, dtype=dtype).run(engine)
    expected = updates_by_repeated_addition(exact_probability(state, p), [0.5] * 60, NUMPY[dtype])
    assert 2 <= expected.sum() < 60
    assert_equal(updates, as_rows(expected, 2, dtype))


@every_engine_and_dtype
@every_cell
def test_a_probability_of_a_tenth_skips_five_steps(cell, engine, dtype):
    problem = Problem(cell, batch=2, steps=6, dtype=dtype)
    problem.tensors["p"] = torch.full((2,), 0.1, dtype=dtype)
    _, _, updates = problem.run(engine)
    assert updates.tolist() == [[0, 0, 0, 0, 0, 1]] * 2  # ceil(0.5 / 0.1) says one less


@every_engine
@every_cell
@pytest.mark.parametrize("steps", [1, 6])
def test_the_first_step_updates(cell, engine, steps):
    problem = constant_gate(cell, 1e-6, steps)
    _, _, updates = problem.run(engine)
    assert updates.tolist() == [[1] + [0] * (steps - 1)] * 2


@every_engine
@every_cell
def test_a_sum_that_stops_growing_never_updates_again(cell, engine):
    problem = Problem(cell, batch=2, steps=100, dtype=torch.float32)
    problem.tensors["p"] = torch.full((2,), 1e-9)
    problem.tensors["acc"] = torch.full((2,), 0.4)  # 0.4 + 1e-9 is 0.4 in float32
    output, state, updates = problem.run(engine)
    assert_equal(updates, torch.zeros(2, 100))
    assert_equal(output, problem.tensors["h"][-1].unsqueeze(1).expand(-1, 100, -1))
    assert_equal(state.acc, torch.full((2,), 0.4))
    assert_equal(state.p, torch.full((2,), 1e-9))


@every_engine
@every_cell
def test_a_threshold_of_one_never_updates(cell, engine):
    problem = constant_gate(cell, 0.4, steps=10)
    _, state, updates = problem.run(engine, threshold=1.0)
    assert_equal(updates, torch.zeros(2, 10))
    assert_equal(state.acc, torch.ones(2))


@every_engine_and_dtype
@every_cell
def test_noise_is_what_the_sum_must_exceed(cell, engine, dtype):
    noise = uniform_noise(3, 40)
    _, state, updates = constant_gate(cell, 0.15, steps=40, dtype=dtype, batch=3).run(engine, noise=noise)
    exact = exact_probability(state, 0.15)
    for row, limits in zip(updates, noise.cpu().numpy()):
        assert_equal(row, as_rows(updates_by_repeated_addition(exact, limits, NUMPY[dtype]), 1, dtype)[0])


@for_engines_in(torch.bfloat16, torch.float32, torch.float64)
@every_cell
def test_noise_is_compared_in_the_precision_of_the_sum(cell, engine, dtype):
    problem = Problem(cell, batch=3, steps=1, dtype=dtype)
    p = torch.full((3,), 0.3, dtype=torch.promote_types(dtype, torch.float32))
    problem.tensors["p"] = p
    noise = torch.stack([p[0].nextafter(p.new_tensor(0.0)), p[1], p[2].nextafter(p.new_tensor(1.0))]).unsqueeze(1)
    assert problem.run(engine, noise=noise)[2].tolist() == [[1], [0], [0]]


@every_engine
@every_cell
@pytest.mark.parametrize("threshold", [0.5, 0.3, 0.8])
def test_constant_noise_is_a_threshold(cell, engine, threshold):
    problem = Problem(cell, steps=20, dtype=dtype_of(engine))
    by_threshold = problem.run(engine, threshold=threshold)
    by_noise = problem.run(engine, noise=torch.full((4, 20), threshold, dtype=torch.float64))
    assert_equal(by_noise, by_threshold)
    assert 0 < by_threshold[2].mean() < 1


@every_engine
@every_cell
def test_a_higher_threshold_skips_more(cell, engine):
    problem = Problem(cell, steps=40, dtype=dtype_of(engine))
    used = [problem.run(engine, threshold=threshold)[2].sum().item() for threshold in (0.0, 0.5, 0.9)]
    assert used[0] > used[1] > used[2]


@every_engine
@every_cell
@pytest.mark.parametrize("noisy", [False, True], ids=["round", "bernoulli"])
def test_the_task_loss_alone_trains_the_gate(cell, engine, noisy):
    problem = Problem(cell, steps=12, dtype=dtype_of(engine))
    noise = uniform_noise(4, 12) if noisy else None
    output, _, updates = problem.run(engine, noise=noise)
    output[:, -1].square().sum().backward()
    assert 0 < updates.mean() < 1
    assert problem.tensors["update_weight"].grad.abs().min() > 0
    assert problem.tensors["update_bias"].grad.abs().min() > 0


@every_engine
@every_cell
@pytest.mark.parametrize("layer", [0, 1])
def test_a_gate_on_some_layers_is_one_with_zeros_for_the_rest(cell, engine, layer):
    both = Problem(cell, gate_layers=(0, 1), dtype=dtype_of(engine))
    with torch.no_grad():
        both.tensors["update_weight"].unflatten(1, (2, -1))[:, 1 - layer] = 0
    one = Problem(cell, gate_layers=(layer,), dtype=dtype_of(engine))
    one.tensors = dict(both.tensors)
    one.tensors["update_weight"] = (
        both.tensors["update_weight"].detach().unflatten(1, (2, -1))[:, layer].requires_grad_()
    )
    got, expected = one.run(engine), both.run(engine)
    assert_equal(got[2], expected[2], "updates")
    assert 0 < got[2].mean() < 1
    got_gradients, expected_gradients = one.gradients(got), both.gradients(expected)
    expected_gradients["update_weight"] = expected_gradients["update_weight"].unflatten(1, (2, -1))[:, layer]
    assert_close(got[0], expected[0], "output")
    for name, gradient in expected_gradients.items():
        assert_close(got_gradients[name], gradient, f"gradient of {name}")
