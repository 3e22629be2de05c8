"""What only the triton engine does, and a few cases of each kind for the quick tests. On the CPU its kernels run under
triton's interpreter, a second or more for each call; the tests over the table of engines run it too, with ``--all``."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from skiprnn_plugin.ops import ENGINES, engines
from skiprnn_plugin.ops.triton import call

from ..compare import assert_close, assert_equal
from .problems import Problem

missing = ENGINES["triton"].refuse(torch.empty(1), "gru", emulated=True)
pytestmark = pytest.mark.skipif(missing is not None, reason=f"triton {missing}")
SPAN = {"lengths": [7, 0, 3, 5], "offsets": [0, 2, 2, 0]}
# cell, features of x, layers, how steps are chosen, other options
CASES = [
    ("gru", 3, 1, "bernoulli", {"last_only": True, **SPAN}),
    ("gru_reset_before", 1, 1, "round", {"threshold": 0.9}),
    ("lstm", 2, 1, "round", {"threshold": 0.9, **SPAN}),
]
MORE_CASES = [
    ("gru", 1, 1, "round", {}),
    ("gru", 2, 1, "round", {"threshold": 0.9, **SPAN}),
    ("gru_reset_before", 3, 1, "full", {"last_only": True}),
    ("lstm", 3, 1, "bernoulli", {}),
    ("lstm", 1, 1, "schedule", {"last_only": True}),
    ("rnn", 1, 1, "round", {"threshold": 0.9}),
    ("gru", 2, 2, "round", {"threshold": 0.9}),
    ("lstm", 2, 2, "bernoulli", {"last_only": True, **SPAN}),
    ("gru_reset_before", 2, 2, "round", {"threshold": 0.9}),
]


def make_problem(cell, dtype=torch.float32, *, inputs=1, layers=1, steps=7, **options):
    """A problem whose gate reads every layer, with a dropout mask among its tensors if it has several."""
    gate_layers = tuple(range(layers))
    problem = Problem(cell, 4, steps, inputs, 5, layers, dtype=dtype, resumed=True, gate_layers=gate_layers, **options)
    if layers > 1:
        mask = torch.tensor([0.0, 2.0, 1.0, 0.5, 3.0], dtype=dtype).repeat(layers - 1, 4, 1)
        problem.tensors["dropout_mask"] = mask.requires_grad_()
    return problem


def run_both(cell, dtype=torch.float32, options=None, **problem):
    """Results, as a dictionary with the gradients, of ``triton``; of ``indexed`` with the same numbers in float64; and
    of ``indexed`` in the same dtype."""
    found = []
    for engine, kind in (("triton", dtype), ("indexed", torch.float64), ("indexed", dtype)):
        ours, theirs = make_problem(cell, dtype, **problem), make_problem(cell, kind, **problem)
        with torch.no_grad():
            for name, value in theirs.tensors.items():
                value.copy_(ours.tensors[name])
        mask = theirs.tensors.get("dropout_mask")
        output, state, updates = result = theirs.run(engine, dropout_mask=mask, **(options or {}))
        values = {"output": output, **state._asdict(), "updates": updates}
        values.update({f"gradient of {name}": value for name, value in theirs.gradients(result).items()})
        found.append({name: value.detach() for name, value in values.items() if value is not None})
    return found


def join_gate(found):
    """With the gradients of the gate's weight and bias in one tensor: in the bias's, large terms cancel."""
    names = [f"gradient of update_{part}" for part in ("weight", "bias")]
    rest = {name: value for name, value in found.items() if name not in names}
    return {**rest, "gradient of the gate": torch.cat([found[name].flatten() for name in names])}


@pytest.mark.parametrize(
    "cell, inputs, layers, mode, options",
    [*CASES, *(pytest.param(*case, marks=pytest.mark.thorough) for case in MORE_CASES)],
)
def test_results_and_gradients(cell, inputs, layers, mode, options):
    options = {**make_problem(cell, inputs=inputs, layers=layers).options(mode), **options}
    got, expected, _ = run_both(cell, inputs=inputs, layers=layers, options=options)
    for name, value in got.items():
        assert_close(value, expected[name].float(), name, 0 if name == "updates" else None)
    assert mode == "full" or 0 < got["updates"].mean() < 1


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_half_precision_is_as_exact_as_with_indexed(cell, dtype):
    got, exact, indexed = (join_gate(found) for found in run_both(cell, dtype, {"threshold": 0.9}))
    assert_equal(got["updates"], indexed["updates"])
    for name, value in got.items():
        error, allowed = ((v.double() - exact[name]).abs().max().item() for v in (value, indexed[name]))
        assert value.dtype == indexed[name].dtype
        allowed = 2 * allowed + 4 * torch.finfo(dtype).eps * exact[name].abs().max().item()
        assert error <= allowed, f"{name}: off by {error:.2e}, allowed {allowed:.2e}"


def test_a_state_that_is_carried_on_gives_the_same_bits():
    problem = make_problem("lstm", steps=8)
    whole, state, updates = problem.run("triton")
    x = problem.tensors["x"]
    first = problem.run("triton", x=x[:, :3])
    second = problem.run("triton", x=x[:, 3:], state=first[1])
    assert_equal(torch.cat([first[0], second[0]], 1), whole)
    assert_equal(torch.cat([first[2], second[2]], 1), updates)
    for got, expected in zip(second[1], state):
        assert_equal(got, expected)


@pytest.mark.thorough
@pytest.mark.parametrize("inputs, cell", [(1, "gru"), (3, "lstm")])
def test_parts_that_fit_into_memory_give_the_same_bits(inputs, cell, monkeypatch):
    """Parts of the records, and parts of the batch."""
    from skiprnn_plugin.ops.triton import call, forward

    problem = make_problem(cell, inputs=inputs)
    options = {"threshold": 0.9, **SPAN}
    expected = problem.run("triton", **options)
    gradients = problem.gradients(expected)
    monkeypatch.setattr(forward, "RECORD_BYTES", 4 * 2 * 16 * 4)  # bytes: one or two updates of four sequences
    assert_equal(problem.gradients(assert_equal_results(problem.run("triton", **options), expected)), gradients)
    monkeypatch.setattr(call, "room", lambda x: 1)  # a sequence at a time
    got = assert_equal_results(problem.run("triton", **options), expected)
    for name, value in problem.gradients(got).items():
        assert_close(value, gradients[name], f"gradient of {name}", 1e-6)


def assert_equal_results(got, expected):
    for value, reference in zip((got[0], *got[1], got[2]), (expected[0], *expected[1], expected[2])):
        assert value is None or torch.equal(value, reference)
    return got


@pytest.mark.thorough
@pytest.mark.parametrize("layers", [1, 2])
def test_gradients_of_any_layout(layers):
    """Of the final state, and of outputs by a sum, whose gradient is one number in all places."""
    problem = make_problem("lstm", layers=layers)
    found = []
    for engine in ("triton", "indexed"):
        output, state, _ = problem.run(engine)
        h = state.h.transpose(1, 2) * torch.arange(4.0)
        total = output.sum() + h.sum() + state.c.sum()
        state.h.detach().zero_()  # no other result shares its memory
        found.append(torch.autograd.grad(total, list(problem.tensors.values()), materialize_grads=True))
    for name, value, expected in zip(problem.tensors, *found):
        assert_close(value, expected, name)


def test_warps_are_a_power_of_two():
    """Triton takes nothing else."""
    from skiprnn_plugin.ops.triton.backward import count_warps

    assert [count_warps(size) for size in (16, 768, 1536, 2048, 3072, 100000)] == [1, 1, 4, 4, 8, 8]


def test_no_features():
    problem = make_problem("gru", inputs=0)
    with torch.no_grad():
        assert_close(problem.run("triton")[0], problem.run("indexed")[0])


@pytest.mark.thorough
def test_a_gate_that_reads_a_layer_twice():
    problem = Problem("gru", 4, 7, 1, 5, 1, dtype=torch.float32, gate_layers=(0, 0))
    got, expected = (problem.run(engine, threshold=0.9) for engine in ("triton", "indexed"))
    assert_equal(got[2], expected[2])
    gradients = problem.gradients(expected)
    for name, value in problem.gradients(got).items():
        assert_close(value, gradients[name], f"gradient of {name}")


@pytest.mark.thorough
def test_inputs_that_are_strided():
    problem = make_problem("gru", inputs=2)
    expected = problem.run("triton")
    x = problem.tensors["x"].detach()
    for strided in (
        x.transpose(1, 2).contiguous().transpose(1, 2),
        x.repeat(1, 1, 2)[..., 2:],
        x[:1].expand(4, -1, -1),
    ):
        with torch.no_grad():
            got = problem.run("triton", x=strided)[0]
        assert_equal(got[:1], expected[0][:1])


@pytest.mark.thorough
def test_gradients_that_explode_are_not_nan():
    """Each step skipped multiplies them by up to 2."""
    problem = Problem("gru", 1, 160, 1, 5, 1, dtype=torch.float32, scale=3)
    with torch.no_grad():
        problem.tensors["update_bias"].fill_(-6)
        problem.tensors["x"].mul_(3)
    result = problem.run("triton")
    assert result[2].sum() < 20
    gradients = problem.gradients(result)
    assert all(not value.isnan().any() for value in gradients.values())


def test_no_triton_is_said_so(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        ValueError, match="^engine: 'triton' needs triton, which is not installed; expected auto or one of"
    ):
        make_problem("gru").run("triton")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_auto_never_emulates(dtype):
    assert call.EMULATED
    problem = make_problem("gru", dtype)
    assert_equal(problem.run("auto"), problem.run("indexed"))


def test_float64_is_refused():
    with pytest.raises(
        ValueError,
        match="^engine: 'triton' takes torch.float32 or torch.bfloat16 or torch.float16 on CUDA, got torch.float64",
    ):
        make_problem("gru", torch.float64).run("triton")


def test_autocast():
    problem = make_problem("gru")
    with torch.autocast("cpu", torch.bfloat16):
        got, expected = problem.run("triton"), problem.run("indexed")
    assert got[0].dtype == expected[0].dtype == torch.bfloat16 and got[1].p.dtype == torch.float32
    assert_close(got[0], expected[0])


@pytest.mark.parametrize(
    "cell, dtype, features, chosen, reason",
    [
        ("gru", torch.float32, [], "triton", "native takes torch.float32 on the CPU, got torch.float32 on cuda:0"),
        ("lstm", torch.bfloat16, [], "triton", "native takes"),
        (
            "gru",
            torch.float64,
            [],
            "indexed",
            "triton takes torch.float32 or torch.bfloat16 or torch.float16 on CUDA",
        ),
        ("lstm", torch.float32, ["zoneout"], "reference", ""),
    ],
)
def test_auto_takes_it_on_a_gpu_where_it_can(cell, dtype, features, chosen, reason, caplog, monkeypatch):
    monkeypatch.setattr(engines, "_announced", set())
    with FakeTensorMode(), caplog.at_level("INFO", logger="skiprnn_plugin.ops.engines"):
        assert engines.choose_engine("auto", features, torch.empty(1, 1, 1, dtype=dtype, device="cuda"), cell) == chosen
    assert caplog.messages[0].startswith(f"engine auto: chose {chosen}") and reason in caplog.messages[0]
