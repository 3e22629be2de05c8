"""Gradients against finite differences, with the decisions held fixed: rounding has no finite difference.

The gate's own gradient is checked against the authors' program (``test_golden.py``).
"""

import pytest
import torch

from skiprnn_plugin.ops import SkipState

from ..compare import assert_results_close
from .problems import (
    Problem,
    cells_quick,
    dtype_of,
    every_cell,
    every_engine,
    every_engine_of_any_dtype,
    every_engine_with_masks,
    every_other,
    mixed_updates,
)

BATCH, STEPS, HIDDEN = 2, 4, 3
# Along one direction at random, or along each of them
every_check = pytest.mark.parametrize(
    "fast_mode", [True, pytest.param(False, marks=pytest.mark.thorough)], ids=["one direction", "every direction"]
)


def scan_function(cell, engine, *, layer_norm=False, dropout=False, masks=False, **options):
    """A function of tensors alone, everything ``skip_scan`` takes to everything it returns; and its inputs."""
    problem = Problem(cell, BATCH, STEPS, 2, HIDDEN, layers=2, layer_norm=layer_norm, gate_layers=(0, 1), resumed=True)
    inputs = dict(problem.tensors)
    if dropout:
        inputs["dropout_mask"] = torch.tensor([0.0, 2.0, 1.5]).repeat(1, BATCH, 1).double().requires_grad_()
    if masks:
        options.update(problem.masks())

    def run(*values):
        tensors = dict(zip(inputs, values))
        output, state, _ = problem.run(
            engine,
            tensors,
            schedule=mixed_updates(BATCH, STEPS),
            dropout_mask=tensors.get("dropout_mask"),
            **options,
        )
        return (output, *(value for value in state if value is not None))

    return run, tuple(inputs.values())


@every_engine_of_any_dtype
@every_cell
@every_check
@pytest.mark.parametrize("dropout", [False, True], ids=["no-dropout", "dropout"])
def test_gradients(cell, engine, dropout, fast_mode):
    assert torch.autograd.gradcheck(*scan_function(cell, engine, dropout=dropout), fast_mode=fast_mode)


@every_engine_with_masks
@every_cell
@every_check
def test_gradients_with_a_mask_for_each_step(cell, engine, fast_mode):
    """Of zoneout and recurrent dropout; the backward of one step needs the masks of that step."""
    assert torch.autograd.gradcheck(*scan_function(cell, engine, masks=True), fast_mode=fast_mode)


@every_engine_of_any_dtype
@every_cell
@every_check
def test_gradients_of_padded_sequences(cell, engine, fast_mode):
    function, inputs = scan_function(cell, engine, lengths=[2, 3], offsets=[1, 0])
    assert torch.autograd.gradcheck(function, inputs, fast_mode=fast_mode)


@every_cell
@every_check
def test_gradients_with_layer_norm(cell, fast_mode):
    function, inputs = scan_function(cell, "reference", layer_norm=True, dropout=True)
    assert torch.autograd.gradcheck(function, inputs, fast_mode=fast_mode)


@cells_quick("lstm")
@pytest.mark.parametrize("masks", [False, True], ids=["no-masks", "masks"])
def test_second_derivatives(cell, masks):
    assert torch.autograd.gradgradcheck(*scan_function(cell, "reference", masks=masks), fast_mode=True)


@every_other
@every_cell
@pytest.mark.parametrize("how", ["grad", "penalty", "hessian"])
def test_second_derivatives_are_refused(cell, engine, how):
    """Not left out: a gradient penalty without its gradient trains something else."""
    problem = Problem(cell, dtype=dtype_of(engine))
    x, weight = problem.tensors["x"], problem.tensors["weight_hh_l0"]

    def square(x):
        return problem.run(engine, x=x, last_only=True)[0].square().sum()

    with pytest.raises(RuntimeError, match=f"engine '{engine}': has no double backward"):
        if how == "hessian":
            torch.autograd.functional.hessian(square, x)
        else:
            (first,) = torch.autograd.grad(square(x), x, create_graph=True)
            total = first.square().sum() + (square(x) if how == "penalty" else 0)
            torch.autograd.grad(total, [weight])


@every_cell
def test_layer_norm_of_equal_units_has_finite_gradients(cell):
    problem = Problem(cell, hidden=1, layer_norm=True)
    gradients = problem.gradients(problem.run("reference"))
    assert all(gradient.isfinite().all() for gradient in gradients.values())


@every_engine
@every_cell
def test_dropout_multiplies_what_a_layer_passes_on(cell, engine):
    problem = Problem(cell, dtype=dtype_of(engine))
    mask = torch.tensor([0.0, 2.0, 1.0, 0.5, 3.0]).to(dtype_of(engine)).repeat(1, 4, 1)
    scaled = dict(problem.tensors)
    scaled["weight_ih_l1"] = scaled["weight_ih_l1"] * mask[0, 0]  # the same, done to the upper layer's input weights
    dropped, expected = problem.run(engine, dropout_mask=mask), problem.run(engine, scaled)
    assert_results_close(dropped, expected)


@every_engine
@every_cell
def test_a_detached_state_cuts_the_graph(cell, engine):
    problem = Problem(cell, dtype=dtype_of(engine))
    _, state, _ = problem.run(engine)
    detached = SkipState(*state).detach()
    assert all(value.requires_grad for value in state if value is not None)
    assert not any(value.requires_grad for value in detached if value is not None)
    torch.testing.assert_close(detached, SkipState(*(v if v is None else v.detach() for v in state)), rtol=0, atol=0)


@every_engine
@every_cell
@pytest.mark.parametrize("case", ["schedule", "one step", "no step"])
def test_a_gate_that_decides_nothing_has_a_gradient_of_zero(cell, engine, case):
    """So that the same parameters have a gradient with every engine and in every way of calling."""
    steps = {"one step": 1, "no step": 0}.get(case, STEPS)
    problem = Problem(cell, BATCH, steps, 2, HIDDEN, dtype=dtype_of(engine))
    schedule = mixed_updates(BATCH, steps) if case == "schedule" else None
    output, state, _ = problem.run(engine, schedule=schedule)
    (output.sum() if steps else state.h.sum()).backward()
    parameters = {name: value for name, value in problem.tensors.items() if name.startswith(("weight_", "bias_", "up"))}
    assert all(value.grad is not None for value in parameters.values())
    assert not any(parameters[name].grad.any() for name in ("update_weight", "update_bias"))


def test_gradients_of_zero_are_no_nan():
    """However large the gate's weights have become."""
    problem = Problem("gru", BATCH, STEPS, 2, HIDDEN)
    with torch.no_grad():
        problem.tensors["update_weight"].fill_(float("inf"))
    output, _, _ = problem.run("reference", schedule=mixed_updates(BATCH, STEPS))
    output.sum().backward()
    assert output.isfinite().all() and not problem.tensors["update_weight"].grad.any()
