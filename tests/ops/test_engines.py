"""Every engine against ``reference``: outputs, gates, final state and all gradients."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from skiprnn_plugin.ops import CELLS, ENGINES, engines
from skiprnn_plugin.ops.indexed import forward as by_update

from ..compare import assert_close, assert_equal, assert_gradients_close, assert_results_close
from ..selection import quick_of
from .problems import (
    Problem,
    dtype_of,
    engine_param,
    every_cell,
    every_engine,
    every_other,
    for_engines,
    for_engines_in,
    loss,
    mixed_updates,
    uniform_noise,
)

# What differs from a batch of 4, 8 steps, 3 inputs, 5 units and 2 layers: of the problem, and of the call
CASES = {
    "plain": ({}, {}),
    "one layer": ({"layers": 1}, {}),
    "three layers": ({"layers": 3, "gate_layers": (0, 2)}, {}),
    "gate of all layers": ({"gate_layers": (0, 1)}, {}),
    "carried state": ({"resumed": True}, {}),
    "no gate": ({}, {"gate": None}),
    "schedule": (
        {"resumed": True},
        {"schedule": [[0, 1, 0, 0, 1, 1, 0, 0], [1] * 8, [0] * 8, [1, 0, 0, 0, 0, 0, 0, 1]]},
    ),
    "schedule without a gate": ({}, {"gate": None, "schedule": [[0, 1] * 4, [1, 0] * 4, [0] * 8, [1] * 8]}),
    "noise": ({"resumed": True}, {"noise": uniform_noise(4, 8, seed=2)}),
    "high threshold": ({"resumed": True}, {"threshold": 0.9}),
    "threshold of 1": ({"resumed": True}, {"threshold": 1.0}),
    "low threshold": ({"resumed": True}, {"threshold": 0.05}),
    "negative threshold": ({"resumed": True}, {"threshold": -1.0}),
    "lengths": ({"resumed": True}, {"lengths": [3, 8, 0, 5]}),
    "left padding": ({"resumed": True}, {"offsets": [5, 0, 8, 2]}),
    "padding on both sides": ({}, {"offsets": [5, 0, 1, 2], "lengths": [3, 8, 0, 5]}),
    "lengths and noise": ({}, {"lengths": [3, 8, 0, 5], "noise": uniform_noise(4, 8, seed=2)}),
    "lengths and schedule": ({}, {"lengths": [3, 8, 0, 5], "schedule": [[0, 1] * 4, [1, 0] * 4, [0] * 8, [1] * 8]}),
    "dropout": ({}, {"dropout_mask": [[[0.0, 2.0, 1.0, 0.5, 3.0]] * 4]}),
    "B 1": ({"batch": 1}, {}),
    "T 1": ({"steps": 1}, {}),
    "H 1": ({"hidden": 1}, {}),
    "D 1": ({"inputs": 1}, {}),
    "all 1": ({"batch": 1, "steps": 1, "hidden": 1, "inputs": 1, "layers": 1}, {}),
    "odd sizes": ({"batch": 7, "steps": 33, "inputs": 9, "hidden": 33, "scale": 0.2}, {}),
    "a large batch": ({"batch": 150, "steps": 20, "layers": 1, "resumed": True}, {}),
    "a large batch of two layers": ({"batch": 150, "steps": 12}, {"lengths": [12, 0, 5] * 50}),
    "all sequences empty": ({"resumed": True}, {"lengths": [0] * 4}),
}


def arguments(case):
    sizes, options = CASES[case]
    options = {
        name: torch.tensor(value, dtype=torch.float64) if name in ("schedule", "dropout_mask") else value
        for name, value in options.items()
    }
    return sizes, options


def assert_same(problem, engine, **options):
    results = {name: problem.run(name, **options) for name in ("reference", engine)}
    expected, got = results["reference"], results[engine]
    assert_results_close(got, expected)
    assert_gradients_close(problem.gradients(got), problem.gradients(expected))
    return results


@every_other
@every_cell
@pytest.mark.parametrize("last_only", quick_of([False, True], False), ids=["all", "last"])
@pytest.mark.parametrize("case", CASES)
def test_equals_reference(cell, engine, case, last_only):
    sizes, options = arguments(case)
    assert_same(Problem(cell, **sizes, dtype=dtype_of(engine)), engine, last_only=last_only, **options)


@every_other
@every_cell
@pytest.mark.parametrize("last_only", [False, True], ids=["all", "last"])
@pytest.mark.parametrize("gate", quick_of([True, False], True), ids=["gate", "no-gate"])
@pytest.mark.parametrize("which", ["output", "h", "c", "p", "acc", "updates"])
def test_gradients_of_one_result_by_itself(cell, engine, which, gate, last_only):
    """The others have none, which an engine may be told instead of zeros."""
    gradients = []
    problem, options = Problem(cell, resumed=True, dtype=dtype_of(engine)), {} if gate else {"gate": None}
    for name in ("reference", engine):
        output, state, updates = problem.run(name, last_only=last_only, **options)
        result = {"output": output, "updates": updates, **state._asdict()}[which]
        if result is None or not result.requires_grad:
            pytest.skip("there is no such result, or it is constant")
        values = torch.autograd.grad(result.square().sum(), list(problem.tensors.values()), materialize_grads=True)
        gradients.append(dict(zip(problem.tensors, values)))
    assert_gradients_close(*reversed(gradients))


# Batch, steps, inputs, hidden and layers about the sizes that kernels are built of
SIZES = [
    *((batch, 5, 3, 16, 1) for batch in (1, 7, 8, 9, 17, 33)),
    *((5, 6, inputs, 9, 1) for inputs in (*range(1, 10), 40, 300)),
    *((3, 7, 2, hidden, 2) for hidden in (1, 7, 16, 110, 128)),
    (2, 4, 3, 513, 1),
    (9, 50, 1, 12, 3),
    (17, 6, 300, 20, 3),
]


@every_other
@every_cell
@pytest.mark.parametrize("last_only", quick_of([False, True], False), ids=["all", "last"])
@pytest.mark.parametrize("batch, steps, inputs, hidden, layers", SIZES)
def test_sizes(cell, engine, batch, steps, inputs, hidden, layers, last_only):
    scale = 0.8 * max(inputs, hidden) ** -0.5  # so that rounding does not grow from step to step
    dtype = dtype_of(engine)
    problem = Problem(cell, batch, steps, inputs, hidden, layers, scale=scale, resumed=True, dtype=dtype)
    assert_same(problem, engine, last_only=last_only)


@for_engines_in(torch.float32, torch.float64, engines=set(ENGINES) - {"reference"})
@every_cell
@pytest.mark.parametrize("last_only", quick_of([False, True], True), ids=["all", "last"])
def test_rows_that_skip_very_differently(cell, engine, dtype, last_only):
    """One row uses nearly all its steps, one a few, one never another; a gate that reads the state decides so."""
    problem = Problem(cell, batch=3, steps=120, layers=1, resumed=True, dtype=dtype)
    with torch.no_grad():
        problem.tensors["update_weight"].fill_(2.0)
        problem.tensors["update_bias"].fill_(-4.0)
        problem.tensors["weight_hh_l0"] *= 0.1
        problem.tensors["x"][:] = torch.tensor([4.0, 0.3, -4.0], dtype=dtype).view(3, 1, 1)
        problem.tensors["weight_ih_l0"].abs_()
    used = assert_same(problem, engine, last_only=last_only)["reference"][2].sum(1)
    assert used.max() > 3 * used.min() and len(set(used.tolist())) == 3, used


@every_other
@every_cell
@pytest.mark.parametrize("options", [{"lengths": [3, 8, 0, 5]}, {"offsets": [5, 0, 8, 2]}], ids=["right", "left"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")], ids=str)
def test_padding_may_hold_anything(cell, engine, options, value):
    clean, dirty = (Problem(cell, dtype=dtype_of(engine)) for _ in range(2))
    offsets = torch.tensor(options.get("offsets", [0] * 4)).unsqueeze(1)
    lengths = torch.tensor(options.get("lengths", [8] * 4)).unsqueeze(1)
    padding = (torch.arange(8) < offsets) | (torch.arange(8) >= offsets + lengths)
    with torch.no_grad():
        dirty.tensors["x"][padding] = value
    results = clean.run(engine, **options), dirty.run(engine, **options)
    assert_equal(*results)
    expected = clean.gradients(results[0])
    for name, gradient in dirty.gradients(results[1]).items():
        assert_equal(gradient, expected[name], name)


@every_other
@every_cell
def test_a_sample_that_is_no_number_gives_the_same_updates(cell, engine):
    problem = Problem(cell, dtype=dtype_of(engine))
    with torch.no_grad():
        problem.tensors["x"][1, 0] = float("nan")  # the first step is always read
    expected, got = (problem.run(name) for name in ("reference", engine))
    assert_equal(got[2], expected[2], "updates")
    assert got[0][1].isnan().all() and expected[0][1].isnan().all()
    assert_close(got[0][[0, 2, 3]], expected[0][[0, 2, 3]], "output of the others")


@every_engine
@every_cell
def test_a_step_that_a_schedule_leaves_out_may_hold_anything(cell, engine):
    """Such as NaN for a frame that is missing."""
    clean, dirty = (Problem(cell, dtype=dtype_of(engine)) for _ in range(2))
    schedule = mixed_updates(4, 8)
    with torch.no_grad():
        dirty.tensors["x"][~schedule] = float("nan")
    results = [problem.run(engine, schedule=schedule, gate=None) for problem in (clean, dirty)]
    assert_equal(*results)
    assert_equal(*(problem.gradients(result) for problem, result in zip((clean, dirty), results)))


@every_other
@every_cell
@pytest.mark.parametrize("layout", ["time first", "every other step", "expanded"])
def test_input_of_any_layout(cell, engine, layout):
    problem = Problem(cell, dtype=dtype_of(engine))
    values = problem.tensors["x"].detach()
    if layout == "time first":
        x = values.transpose(0, 1).contiguous().transpose(0, 1)
    elif layout == "every other step":
        x = torch.stack([values, -values], 2).flatten(1, 2)[:, ::2]
    else:
        x = values[:1].expand(4, -1, -1)
    assert layout == "every other step" or not x.is_contiguous()
    expected = problem.run("reference", x=x.clone(memory_format=torch.contiguous_format))
    got = problem.run(engine, x=x)
    assert_results_close(got, expected)
    gradients = [torch.autograd.grad(loss(*results), problem.tensors["weight_ih_l0"])[0] for results in (got, expected)]
    assert_close(*gradients)


@every_other
@every_cell
@pytest.mark.parametrize("missing", ["x", "update_weight", "weight_hh_l0", "all weights"])
def test_gradients_of_a_part_alone(cell, engine, missing):
    """What needs no gradient gets none, and the others get theirs."""
    problem = Problem(cell, resumed=True, dtype=dtype_of(engine))
    left = {n for n in problem.tensors if n == missing or (missing == "all weights" and ("ih" in n or "hh" in n))}
    tensors = {name: value.detach() if name in left else value for name, value in problem.tensors.items()}
    wanted = [value for name, value in tensors.items() if name not in left]
    expected, got = (torch.autograd.grad(loss(*problem.run(e, tensors)), wanted) for e in ("reference", engine))
    for a, b in zip(got, expected):
        assert_close(a, b)


@pytest.mark.parametrize("engine", ["indexed"])  # it calls the cell in Python
@every_cell
@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
def test_cell_steps_executed_equal_the_updates(cell, engine, grad, monkeypatch):
    """Skipped steps cost no cell step: counted in rows that the cell was given, of each layer."""
    counted, combine = [], CELLS[cell].combine
    monkeypatch.setattr(CELLS[cell], "combine", lambda x, *args: counted.append(len(x)) or combine(x, *args))
    problem = Problem(cell, steps=40)
    with torch.set_grad_enabled(grad):
        updates = problem.run(engine, lengths=[40, 0, 13, 29])[2]
    assert 0 < updates.sum() < 0.9 * (40 + 13 + 29)
    assert sum(counted) == 2 * updates.sum()


@pytest.mark.parametrize("engine", ["indexed"])
def test_inference_keeps_nothing(engine, monkeypatch):
    """Weights that could be trained make no difference under no_grad."""
    kept, forward = [], by_update.forward

    def spy(*args):
        results = forward(*args)
        kept.append(len(results[-1]))
        return results

    monkeypatch.setattr(by_update, "forward", spy)
    problem = Problem("lstm")
    with torch.no_grad():
        problem.run(engine)
    problem.run(engine)
    assert kept[0] == 0 < kept[1]


@every_other
def test_a_change_in_place_before_the_backward_is_an_error(engine):
    problem = Problem("gru", dtype=dtype_of(engine))
    total = problem.run(engine)[0].sum()
    with torch.no_grad():
        problem.tensors["weight_hh_l0"].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


@every_other
def test_backward_twice(engine):
    problem = Problem("lstm", dtype=dtype_of(engine))
    total = problem.run(engine)[0].sum()
    first = torch.autograd.grad(total, problem.tensors["x"], retain_graph=True)
    assert_equal(torch.autograd.grad(total, problem.tensors["x"]), first)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        torch.autograd.grad(total, problem.tensors["x"])


@every_other
def test_double_backward_names_the_engine_that_can(engine):
    problem = Problem("gru", dtype=dtype_of(engine))
    (first,) = torch.autograd.grad(problem.run(engine)[0].sum(), problem.tensors["x"], create_graph=True)
    with pytest.raises(RuntimeError, match=f"engine '{engine}'.*'reference'"):
        first.sum().backward()


# Without "thorough" every engine, the last output alone and all outputs: compiling takes seconds
@pytest.mark.parametrize(
    "engine, cell",
    [
        engine_param(engine, cell, thorough=cell != ("gru" if engine == "indexed" else "lstm"))
        for engine in sorted(ENGINES.keys() - {"reference"})
        for cell in sorted(CELLS)
    ],
)
def test_compiled_equals_eager_and_new_lengths_do_not_recompile(cell, engine):
    last_only = cell in ("gru", "rnn")  # both ways, with half the compiling
    from torch._dynamo.testing import CompileCounterWithBackend

    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    problem = Problem(cell, steps=40, dtype=dtype_of(engine))
    tensors = dict(problem.tensors)

    def run(x, lengths):
        output, state, updates = problem.run(engine, {**tensors, "x": x}, lengths=lengths, last_only=last_only)
        return output, state, updates

    compiled = torch.compile(run, fullgraph=True, backend=counter)
    frames = []
    for steps in (5, 9, 13, 39):
        x, lengths = problem.tensors["x"][:, :steps].contiguous(), torch.tensor([steps, 0, 3, 4])
        expected, got = run(x, lengths), compiled(x, lengths)
        torch.testing.assert_close(got, expected, rtol=0, atol=0)
        assert_gradients_close(problem.gradients(got), problem.gradients(expected))
        with torch.no_grad():
            torch.testing.assert_close(compiled(x, lengths), expected, rtol=0, atol=0)
        frames.append(counter.frame_count)
    assert frames[1:] == frames[1:2] * 3, frames


@every_other
@every_cell
@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
def test_fake_tensors_have_the_shapes_of_real_ones(cell, engine, grad):
    problem = Problem(cell, dtype=dtype_of(engine))
    expected = problem.run(engine)
    with FakeTensorMode(shape_env=ShapeEnv()) as mode, torch.set_grad_enabled(grad):
        tensors = {name: mode.from_tensor(value, static_shapes=True) for name, value in problem.tensors.items()}
        output, state, updates = problem.run(engine, tensors)
    for got, value in zip((output, *state, updates), (expected[0], *expected[1], expected[2])):
        assert (got is None) == (value is None)
        assert value is None or (got.shape, got.dtype, got.requires_grad) == (value.shape, value.dtype, grad)


def test_auto_is_the_fastest_engine_that_can_do_what_is_asked(caplog, monkeypatch):
    monkeypatch.setattr(engines, "_announced", set())
    half, wide = Problem("gru", dtype=torch.float16), Problem("gru")
    device = torch.empty(0).device
    fastest = "triton" if device.type == "cuda" else "indexed"
    with caplog.at_level("INFO", logger="skiprnn_plugin.ops.engines"):
        for _ in range(2):  # said once
            assert_equal(wide.run("auto"), wide.run("indexed"))
            assert_equal(half.run("auto"), half.run(fastest))
            assert_equal(wide.run("auto", **wide.masks()), wide.run("reference", **wide.masks()))
    able = {"native": "torch.float32 on the CPU", "triton": "torch.float32 or torch.bfloat16 or torch.float16 on CUDA"}
    chosen = []
    for name, dtype in (("indexed", torch.float64), (fastest, torch.float16)):
        refused = [other for other in able if other != name]
        chosen.append(name + "".join(f"; {other} takes {able[other]}, got {dtype} on {device}" for other in refused))
    assert caplog.messages == [f"engine auto: chose {name}" for name in [*chosen, "reference"]]
    fastest_first = ["native", "triton", "indexed", "reference"]
    assert [name for name in ENGINES if name in fastest_first] == fastest_first


@for_engines(["native"])
def test_auto_chooses_native_for_float32_on_the_cpu(engine, caplog, monkeypatch):
    monkeypatch.setattr(engines, "_announced", set())
    problem = Problem("gru", dtype=torch.float32)
    with caplog.at_level("INFO", logger="skiprnn_plugin.ops.engines"):
        assert_equal(problem.run("auto"), problem.run(engine))
        with torch.autocast("cpu", torch.bfloat16):
            assert_equal(problem.run("auto"), problem.run("indexed"))
    native, indexed = caplog.messages
    assert native == "engine auto: chose native"
    assert indexed.startswith("engine auto: chose indexed; native takes torch.float32 on the CPU, got torch.bfloat16")
