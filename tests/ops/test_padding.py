"""Padding has no effect, whatever it holds."""

import pytest
import torch

from ..compare import assert_close, assert_equal, assert_gradients_close
from .problems import Problem, cut_options, dtype_of, every_cell, every_engine, every_mode

STEPS = 7
ORDERS = [[3, 6, 4], [6, 4, 3, 0], [0, 3, 6, 4], [4, 0, 0, 7]]
SIDES = ["right", "left", "both"]
# Without "thorough" each order on one side, and each side
every_layout = pytest.mark.parametrize(
    "side, lengths",
    [
        pytest.param(side, lengths, marks=() if SIDES.index(side) == number % 3 else pytest.mark.thorough)
        for side in SIDES
        for number, lengths in enumerate(ORDERS)
    ],
    ids=str,
)


def padded_problem(cell, engine, lengths, side):
    """A problem with NaN in its padding, and where the sequences begin."""
    problem = Problem(cell, batch=len(lengths), steps=STEPS, dtype=dtype_of(engine))
    offsets = [{"right": 0, "left": STEPS - length, "both": (STEPS - length) // 2}[side] for length in lengths]
    real = torch.zeros(len(lengths), STEPS, dtype=torch.bool)
    for row, (begin, length) in enumerate(zip(offsets, lengths)):
        real[row, begin : begin + length] = True
    with torch.no_grad():
        problem.tensors["x"][~real] = float("nan")
    return problem, offsets, real


def run_alone(problem, engine, row, begin, length, options):
    """Sequence ``row`` without its padding and without the others."""
    tensors = dict(problem.tensors)
    tensors["x"] = tensors["x"][row : row + 1, begin : begin + length]
    for name in {"h", "c"} & tensors.keys():
        tensors[name] = tensors[name][:, row : row + 1]
    options = cut_options(options, slice(row, row + 1), slice(begin, begin + length))
    return problem.run(engine, tensors, **options)


@every_cell
@every_layout
@every_mode
def test_a_padded_batch_equals_each_sequence_alone(cell, engine, side, lengths, mode):
    problem, offsets, real = padded_problem(cell, engine, lengths, side)
    options = problem.options(mode)
    together = problem.run(engine, lengths=lengths, offsets=None if side == "right" else offsets, **options)
    alone = [
        run_alone(problem, engine, row, begin, length, options)
        for row, (begin, length) in enumerate(zip(offsets, lengths))
    ]
    output, state, updates = together
    for row, (begin, length) in enumerate(zip(offsets, lengths)):
        expected_output, expected_state, expected_updates = alone[row]
        assert_close(output[row, begin : begin + length], expected_output[0], f"output of row {row}")
        assert_equal(updates[row, begin : begin + length], expected_updates[0], f"updates of row {row}")
        for field in ("h", "c"):
            if getattr(state, field) is not None:
                assert_close(getattr(state, field)[:, row], getattr(expected_state, field)[:, 0], field)
        assert_close(state.p[row], expected_state.p[0], "p")
        assert_close(state.acc[row], expected_state.acc[0], "acc")
    assert not output[~real].any() and not updates[~real].any()

    gradients = problem.gradients(together)
    assert all(gradient.isfinite().all() for gradient in gradients.values())
    assert_gradients_close(gradients, problem.gradients(*alone))
    assert not gradients["x"][~real].any()


@every_engine
@every_cell
def test_a_zero_length_row_keeps_its_state(cell, engine):
    problem = Problem(cell, batch=3, resumed=True, dtype=dtype_of(engine))
    _, state, updates = problem.run(engine, lengths=[8, 0, 5])
    sum(value[..., 1, :].sum() for value in (state.h, state.c) if value is not None).backward(retain_graph=True)
    (state.p[1] + state.acc[1]).backward()
    assert not updates[1].any()
    for name in {"h", "c", "p", "acc"} & problem.tensors.keys():
        tensor, rows = problem.tensors[name], 1 if name in ("h", "c") else 0
        assert_equal(getattr(state, name).select(rows, 1), tensor.select(rows, 1), name)
        expected = torch.zeros_like(tensor)
        expected.select(rows, 1).fill_(1)
        assert_equal(tensor.grad, expected, f"gradient of {name}")


@every_engine
@every_cell
def test_last_only_of_padded_sequences(cell, engine):
    problem, offsets, _ = padded_problem(cell, engine, [3, 0, 6], "left")
    output, state, _ = problem.run(engine, lengths=[3, 0, 6], offsets=offsets, last_only=True)
    assert_equal(output, state.h[-1])
    assert_equal(output[1], problem.tensors["h"][-1, 1])


@every_engine
@pytest.mark.parametrize("name", ["lengths", "offsets"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
def test_lengths_may_be_a_list_or_any_integer_tensor(engine, name, dtype):
    problem = Problem("lstm", dtype=dtype_of(engine))
    values = [3, 8, 0, 5]
    by_tensor = problem.run(engine, **{name: torch.tensor(values, dtype=dtype)})
    assert_equal(by_tensor, problem.run(engine, **{name: values}))


@every_engine
@every_cell
def test_full_lengths_change_nothing(cell, engine):
    problem = Problem(cell, dtype=dtype_of(engine))
    assert_equal(problem.run(engine, lengths=[8] * 4), problem.run(engine))
