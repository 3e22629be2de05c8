"""What holds for ``skip_scan`` whatever the cell and the engine."""

import pytest
import torch

from skiprnn_plugin.ops import CELLS

from ..compare import assert_close, assert_equal, assert_gradients_close, assert_results_close
from .problems import (
    Problem,
    cut_options,
    dtype_of,
    every_cell,
    every_engine,
    every_engine_of_any_dtype,
    every_mode,
    for_engines_in,
    loss,
    mixed_updates,
)

HALF = [torch.bfloat16, torch.float16]


@every_cell
@every_mode
@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param([1, 11], marks=pytest.mark.thorough),
        pytest.param([5, 7], marks=pytest.mark.thorough),
        [4, 0, 5, 3],
        pytest.param([1] * 12, marks=pytest.mark.thorough),
    ],
    ids=str,
)
def test_chunks_equal_the_whole(cell, engine, mode, sizes):
    problem = Problem(cell, steps=12, dtype=dtype_of(engine))
    options = problem.options(mode)
    whole = problem.run(engine, **options)
    state, outputs, updates, begin = problem.arguments()["state"], [], [], 0
    for size in sizes:
        times = slice(begin, begin + size)
        chunk = {"x": problem.tensors["x"][:, times], **cut_options(options, slice(None), times)}
        output, state, update = problem.run(engine, state=state, **chunk)
        outputs.append(output)
        updates.append(update)
        begin += size
    chunked = torch.cat(outputs, 1), state, torch.cat(updates, 1)
    assert mode == "full" or 0 < whole[2].mean() < 1
    assert_equal(chunked[2], whole[2])
    if engine == "reference":
        assert_equal(chunked, whole)
    else:  # a product's bits may depend on how many rows it has
        assert_results_close(chunked, whole)
    assert_gradients_close(problem.gradients(chunked), problem.gradients(whole))


@every_engine
@every_cell
@pytest.mark.parametrize("lengths", [None, [3, 6, 4, 1]], ids=["all", "lengths"])
def test_last_only_is_the_last_real_output(cell, engine, lengths):
    problem = Problem(cell, dtype=dtype_of(engine))
    output, state, updates = problem.run(engine, lengths=lengths)
    last, *rest = problem.run(engine, lengths=lengths, last_only=True)
    end = torch.tensor(lengths or [8] * 4) - 1
    assert_equal(last, output[torch.arange(4), end])
    assert_equal(rest, [state, updates])


@every_engine
@every_cell
def test_gradients_of_last_only(cell, engine):
    problem = Problem(cell, dtype=dtype_of(engine))
    output, state, updates = problem.run(engine)
    expected = problem.gradients((output[:, -1], state, updates))
    assert_gradients_close(problem.gradients(problem.run(engine, last_only=True)), expected)


@every_engine
@every_cell
def test_a_schedule_of_ones_is_no_gate(cell, engine):
    problem = Problem(cell, dtype=dtype_of(engine))
    full = problem.run(engine, gate=None)
    scheduled = problem.run(engine, schedule=torch.ones(4, 8))
    assert_equal(scheduled[0], full[0], "output")
    assert_equal(scheduled[1][:2], full[1][:2], "state")
    assert_equal(scheduled[2], full[2], "updates")
    assert_equal(full[2], torch.ones(4, 8, dtype=dtype_of(engine)), "updates")


@every_engine
@every_cell
@pytest.mark.parametrize("lengths", [None, [20, 0, 7, 13]], ids=["all", "lengths"])
def test_the_gates_own_updates_as_a_schedule_change_nothing(cell, engine, lengths):
    problem = Problem(cell, steps=20, resumed=True, dtype=dtype_of(engine))
    free = problem.run(engine, lengths=lengths)
    scheduled = problem.run(engine, schedule=free[2].detach(), lengths=lengths)
    assert 0 < free[2].mean() < 1
    assert_equal(scheduled, free)


@every_engine
@every_cell
@pytest.mark.parametrize("gated", [True, False], ids=["gate", "no-gate"])
def test_a_schedule_holds_the_state_at_its_zeros(cell, engine, gated):
    problem = Problem(cell, dtype=dtype_of(engine))
    schedule = mixed_updates(4, 8)
    options = {} if gated else {"gate": None}
    output, state, updates = problem.run(engine, schedule=schedule, **options)
    before = torch.cat([problem.tensors["h"][-1].unsqueeze(1), output[:, :-1]], 1)
    assert not schedule[:, 0].all() and not schedule[:, -1].all()
    assert_equal(updates, schedule.to(dtype_of(engine)))
    assert_equal((output == before).all(-1), ~schedule)
    assert_equal(state.h[-1], output[:, -1])


@every_engine
@every_cell
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64], ids=str)
def test_a_schedule_may_have_any_dtype(cell, engine, dtype):
    problem = Problem(cell, dtype=dtype_of(engine))
    schedule = mixed_updates(4, 8)
    assert_equal(problem.run(engine, schedule=schedule.to(dtype)), problem.run(engine, schedule=schedule))


@every_engine
@every_cell
@pytest.mark.parametrize("last_only", [False, True], ids=["all", "last"])
@pytest.mark.parametrize("batch, steps", [(3, 0), (0, 4), (0, 0)], ids=["T0", "B0", "B0-T0"])
def test_nothing_to_read(cell, engine, batch, steps, last_only):
    problem = Problem(cell, batch=batch, steps=steps, resumed=True, dtype=dtype_of(engine))
    output, state, updates = problem.run(engine, last_only=last_only)
    assert output.shape == ((batch, 5) if last_only else (batch, steps, 5))
    assert updates.shape == (batch, steps)
    assert output.dtype == updates.dtype == dtype_of(engine)
    assert_equal(state, problem.arguments()["state"])
    sum(value.sum() for value in state if value is not None).backward()
    for name, tensor in problem.tensors.items():
        expected = torch.ones_like if name in ("h", "c", "p", "acc") else torch.zeros_like
        assert_equal(tensor.grad, expected(tensor), name)  # DistributedDataParallel waits for each


# Without "thorough" each cell in one of the dtypes
@every_engine_of_any_dtype
@pytest.mark.parametrize(
    "cell, dtype",
    [
        pytest.param(cell, dtype, marks=() if number % 2 == HALF.index(dtype) else pytest.mark.thorough)
        for number, cell in enumerate(sorted(CELLS))
        for dtype in HALF
    ],
    ids=str,
)
def test_half_precision_stays_finite_over_784_steps(cell, engine, dtype):
    problem = Problem(cell, batch=2, steps=784, inputs=1, layers=1, dtype=dtype)
    with torch.no_grad():
        for name in ("weight_hh_l0", "update_weight"):
            problem.tensors[name] *= 0.3  # else a plain RNN's gradient grows without bound over the steps
    output, state, updates = problem.run(engine)
    assert output.dtype == state.h.dtype == dtype
    assert state.p.dtype == state.acc.dtype == updates.dtype == torch.float32
    assert 0 < updates.mean() < 1
    loss(output[:, -1].float(), state, updates).backward()
    for value in (output, *state, *(tensor.grad for tensor in problem.tensors.values())):
        assert value is None or value.isfinite().all()
    for name, tensor in problem.tensors.items():
        assert tensor.grad.dtype == tensor.dtype and tensor.grad.any(), name


@every_engine_of_any_dtype
@every_cell
@pytest.mark.parametrize("updates", ["all", pytest.param("first", marks=pytest.mark.thorough)])
def test_half_precision_loses_nothing_of_long_sums(cell, engine, updates):
    """bfloat16 has 8 bits: 1 added to 256 is lost, as a step's gradient would be in the sum over many."""
    problem = Problem(cell, batch=2, steps=500, inputs=1, layers=1, dtype=torch.bfloat16)
    schedule = torch.ones(2, 500)
    if updates == "first":
        schedule[:, 1:] = 0
    names = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]
    with torch.no_grad():
        problem.tensors["weight_hh_l0"] *= 0.3
        problem.tensors["x"].abs_()
    wide = {name: tensor.detach().float().requires_grad_() for name, tensor in problem.tensors.items()}
    norms = []
    for tensors in (problem.tensors, wide):
        output = problem.run(engine, tensors, schedule=schedule, gate=None)[0]
        gradients = torch.autograd.grad(output.float().sum(), [tensors[name] for name in names])
        norms.append(torch.stack([gradient.float().norm() for gradient in gradients]))
    assert_close(norms[0] / norms[1], torch.ones(4), "norms over float32's", tolerance=0.05)


@every_engine_of_any_dtype
@every_cell
def test_autocast_keeps_the_gate_in_float32(cell, engine):
    problem = Problem(cell, batch=50, steps=1, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, state, updates = problem.run(engine)
        gradients = problem.gradients((output, state, updates))
    assert output.dtype == state.h.dtype == torch.bfloat16
    assert state.p.dtype == state.acc.dtype == updates.dtype == torch.float32
    assert not torch.equal(state.p.bfloat16().float(), state.p), "p was computed in bfloat16"
    assert all(gradient.isfinite().all() for gradient in gradients.values())


@every_engine_of_any_dtype
def test_autocast_leaves_float64_alone(engine):
    problem = Problem("gru")
    mixed = {**problem.tensors, "x": problem.tensors["x"].float()}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert problem.run(engine)[0].dtype == torch.float64
        with pytest.raises(ValueError, match="^x: expected the weights' dtype, torch.float64, got torch.float32"):
            problem.run(engine, mixed)


@for_engines_in(torch.float32, torch.float64)
@every_cell
def test_results_have_the_dtype_of_the_input(cell, engine, dtype):
    problem = Problem(cell, dtype=dtype)
    output, state, updates = problem.run(engine)
    assert {value.dtype for value in (output, *state, updates) if value is not None} == {dtype}


@for_engines_in(*HALF, torch.float32)
@every_cell
def test_lower_precision_is_near_float64(cell, engine, dtype):
    rounded, wide = Problem(cell, dtype=dtype), Problem(cell)
    schedule = mixed_updates(4, 8)
    tensors = {name: tensor.double() for name, tensor in rounded.tensors.items()}
    output, _, _ = rounded.run(engine, schedule=schedule)
    expected, _, _ = wide.run("reference", tensors, schedule=schedule)
    assert_close(output, expected.to(dtype))


@every_cell
@every_mode
def test_two_runs_are_bitwise_equal(cell, engine, mode):
    first, second = (Problem(cell, steps=20, dtype=dtype_of(engine)) for _ in range(2))
    options = first.options(mode)
    results = first.run(engine, **options), second.run(engine, **options)
    assert_equal(*results)
    assert_equal(first.gradients(results[0]), second.gradients(results[1]))
