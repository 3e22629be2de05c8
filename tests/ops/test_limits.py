"""``min_skip`` and ``max_skip``: limits of how many steps are skipped."""

import pytest
import torch

from skiprnn_plugin.ops import ENGINES, SkipState, skip_scan
from skiprnn_plugin.ops.engines import LIMITS
from skiprnn_plugin.ops.types import Operands, flatten_weights

from ..compare import assert_close, assert_equal, assert_gradients_close, assert_results_close
from ..selection import quick_of
from .problems import Problem, dtype_of, every_cell, every_engine, for_engines

ABLE = [name for name, engine in ENGINES.items() if engine.features.issuperset(LIMITS)]
every_able_engine = for_engines(ABLE)
every_other_able_engine = for_engines(set(ABLE) - {"reference"})
every_pair_of_limits = pytest.mark.parametrize(
    "limits",
    [{"min_skip": 2}, {"max_skip": 1}, {"min_skip": 1, "max_skip": 2}, {"min_skip": 3, "max_skip": 3}, {"max_skip": 0}],
    ids=lambda limits: " ".join(f"{name}={value}" for name, value in limits.items()),
)
STEPS = 14
LAYOUTS = {
    "none": {},
    "right": {"lengths": [STEPS, 9, 0, 5]},
    "left": {"offsets": [0, 5, STEPS, 9]},
    "both": {"offsets": [2, 0, 7, 1], "lengths": [11, STEPS, 0, 6]},
}
every_layout = pytest.mark.parametrize("layout", quick_of(LAYOUTS, "both"))


def make(cell, engine="reference", **sizes):
    """A problem whose gate skips from none to many steps."""
    problem = Problem(cell, **{"steps": STEPS, "dtype": dtype_of(engine), "resumed": True, **sizes})
    with torch.no_grad():
        problem.tensors["update_weight"] *= 3
        problem.tensors["update_bias"].zero_()
    return problem


def run_by_definition(problem, engine, row, times, min_skip=0, max_skip=None, state=None):
    """The outputs, state and updates of one sequence, one step at a time, each with a schedule that says whether it is
    updated; ``state`` is where it starts, if not with the problem's."""
    arguments = problem.arguments()
    state = arguments["state"] if state is None else state
    h, c, p, acc = state
    h, c = (part if part is None else part[:, row : row + 1] for part in (h, c))
    state = SkipState(h, c, p[row : row + 1], acc[row : row + 1])
    outputs, updates, skipped, updated = [], [], 0, False
    for t in times:
        v = state.acc + torch.minimum(state.p, 1 - state.acc)
        if max_skip is not None and skipped >= max_skip:
            u = True
        elif updated and skipped < min_skip:
            u = False
        else:
            u = bool(v > 0.5)
        x = arguments["x"][row : row + 1, t : t + 1]
        given = {**arguments, "x": x, "state": state, "schedule": torch.tensor([[u]])}
        output, state, _ = skip_scan(**given, engine=engine)
        outputs.append(output[0, 0])
        updates.append(float(u))
        skipped, updated = (0, True) if u else (skipped + 1, updated)
    return outputs, state, updates


@every_able_engine
@every_cell
@every_pair_of_limits
@every_layout
def test_the_definition(cell, engine, limits, layout):
    problem, options = make(cell, engine), LAYOUTS[layout]
    output, state, updates = problem.run(engine, **limits, **options)
    offsets = options.get("offsets", [0] * 4)
    lengths = options.get("lengths", [STEPS - offset for offset in offsets])
    for row, (begin, length) in enumerate(zip(offsets, lengths)):
        times = range(begin, begin + length)
        expected, last, expected_updates = run_by_definition(problem, engine, row, times, **limits)
        assert updates[row].tolist() == [0.0] * begin + expected_updates + [0.0] * (STEPS - begin - length)
        if length:
            assert_close(output[row, begin : begin + length], torch.stack(expected), f"output of row {row}")
        for field in ("h", "c"):
            if getattr(state, field) is not None:
                assert_close(getattr(state, field)[:, row], getattr(last, field)[:, 0], field)
        assert_close(state.p[row], last.p[0], "p")
        assert_close(state.acc[row], last.acc[0], "acc")
    assert not updates.equal(problem.run(engine, **options)[2])


@every_able_engine
@every_cell
@every_pair_of_limits
@every_layout
@pytest.mark.parametrize("last_only", quick_of([False, True], False), ids=["all", "last"])
def test_results_and_gradients_are_those_of_a_schedule(cell, engine, limits, layout, last_only):
    problem, options = make(cell, engine), {"last_only": last_only, **LAYOUTS[layout]}
    limited = problem.run(engine, **limits, **options)
    scheduled = problem.run(engine, schedule=limited[2].detach(), **options)
    assert_equal(limited, scheduled)
    assert_equal(problem.gradients(limited), problem.gradients(scheduled))


@every_other_able_engine
@every_cell
@every_pair_of_limits
@pytest.mark.parametrize(
    "sizes",
    [{}, {"batch": 1, "inputs": 40, "steps": 60}, {"batch": 70, "layers": 1, "steps": 50}, {"gate_layers": (0, 1)}],
    ids=["small", "wide input", "many sequences", "gate of all layers"],
)
def test_equals_reference(cell, engine, limits, sizes):
    problem = make(cell, engine, scale=0.5, **sizes)
    expected, got = (problem.run(name, **limits) for name in ("reference", engine))
    assert_results_close(got, expected)
    assert_gradients_close(problem.gradients(got), problem.gradients(expected))


@every_able_engine
@every_cell
def test_every_call_counts_from_its_beginning(cell, engine):
    """The state does not hold how many steps have been skipped."""
    problem, limits = make(cell, engine), {"min_skip": 3, "max_skip": 4}
    whole, parts, state = problem.run(engine, **limits)[2], [], problem.arguments()["state"]
    for begin, end in ((0, 4), (4, 7), (7, STEPS)):
        expected = [
            run_by_definition(problem, engine, row, range(begin, end), **limits, state=state)[2] for row in range(4)
        ]
        _, state, updates = problem.run(engine, x=problem.tensors["x"][:, begin:end], state=state, **limits)
        assert updates.tolist() == expected
        parts.append(updates)
    assert not torch.cat(parts, 1).equal(whole)


@every_able_engine
@every_cell
def test_a_skipped_step_may_hold_anything(cell, engine):
    clean, dirty = make(cell, engine), make(cell, engine)
    limits = {"min_skip": 1, "max_skip": 2}
    results = [clean.run(engine, **limits)]
    with torch.no_grad():
        dirty.tensors["x"][results[0][2] == 0] = float("nan")
    results.append(dirty.run(engine, **limits))
    assert_equal(*results)
    assert_equal(*(problem.gradients(result) for problem, result in zip((clean, dirty), results)))


@every_able_engine
@pytest.mark.parametrize("threshold", [-1.0, 0.0, 0.9, 1.0, float("inf")])
@every_pair_of_limits
def test_any_threshold(engine, threshold, limits):
    """Of a threshold of 1 or more only the limit makes updates."""
    problem = make("gru", engine)
    updates = problem.run(engine, threshold=threshold, **limits)[2]
    assert_equal(updates, problem.run("reference", threshold=threshold, **limits)[2])
    if threshold >= 1 and "max_skip" in limits:
        expected = [float(t % (limits["max_skip"] + 1) == limits["max_skip"]) for t in range(STEPS)]
        assert updates.tolist() == [expected] * 4
    if threshold < 0:
        least = limits.get("min_skip", 0)
        assert updates.tolist() == [[float(t % (least + 1) == 0) for t in range(STEPS)]] * 4


@every_able_engine
def test_limits_beyond_every_number_of_steps(engine):
    problem = make("gru", engine)
    free, once = problem.run(engine)[2], problem.run(engine, min_skip=10**30, max_skip=10**40)[2]
    assert_equal(once, free * (free.cumsum(1) == 1), "the first update alone")
    assert_equal(problem.run(engine, max_skip=10**30)[2], free)


@every_able_engine
@pytest.mark.parametrize("batch, steps", [(3, 0), (0, 4)])
def test_nothing_to_read(engine, batch, steps):
    problem = make("lstm", engine, batch=batch, steps=steps)
    output, state, updates = problem.run(engine, min_skip=1, max_skip=2)
    assert output.shape == (batch, steps, 5) and updates.shape == (batch, steps)
    assert_equal(state, problem.arguments()["state"])


@every_engine
@pytest.mark.parametrize("options", [{}, {"offsets": [0, 3, STEPS, 1]}], ids=["all", "left"])
def test_without_a_gate_updates_come_regularly(engine, options):
    """It would update every step, so ``max_skip`` changes nothing."""
    problem = make("gru", engine)
    updates = problem.run(engine, gate=None, min_skip=2, max_skip=5, **options)[2]
    begin = torch.tensor(options.get("offsets", [0] * 4)).unsqueeze(1)
    time = torch.arange(STEPS) - begin
    assert_equal(updates, ((time >= 0) & (time % 3 == 0)).to(updates.dtype))
    assert problem.run(engine, gate=None, max_skip=0)[2].all()


@every_other_able_engine
@pytest.mark.parametrize("cell", quick_of(["lstm", "gru"], "gru"))
def test_compiled_equals_eager_and_follows_new_limits(cell, engine):
    from torch._dynamo.testing import CompileCounterWithBackend

    torch._dynamo.reset()
    problem, counter = make(cell, engine), CompileCounterWithBackend("aot_eager")

    def run(min_skip, max_skip):
        return problem.run(engine, min_skip=min_skip, max_skip=max_skip)

    compiled = torch.compile(run, fullgraph=True, backend=counter)
    for limits in ((0, 1), (2, 3), (1, None), (0, None), (3, 3), (4, 5), (1, 6)):
        expected, got = run(*limits), compiled(*limits)
        assert_equal(got, expected)
        assert_equal(problem.gradients(got), problem.gradients(expected))
    assert counter.frame_count <= 4  # only for limits that are given or not


@every_other_able_engine
def test_the_registered_operator_without_limits(engine):
    """As programs of torch.export call it that were saved before there were limits."""
    problem = make("gru", engine)
    (expected, *_), arguments = problem.run(engine), problem.arguments()
    state, gate = arguments["state"], arguments["gate"]
    operands = Operands(arguments["x"], state.h, None, state.p, state.acc, gate.weight, gate.bias, None)
    weights = flatten_weights(arguments["weights"])
    output, *_ = torch.ops.skiprnn_plugin.scan(*operands, weights, "gru", 0.5, [1], False, engine, True)
    assert_equal(output, expected)
    assert_equal(*(torch.autograd.grad(value.sum(), weights) for value in (output, expected)))


def test_gradients_of_each_sequence_by_vmap():
    problem = make("gru")
    tensors = {name: tensor.detach() for name, tensor in problem.tensors.items()}
    begin = torch.tensor([0, 3, 8, 1])

    def total(weight, x, h, p, acc, begin):
        one = {**tensors, "x": x[None], "h": h[:, None], "p": p[None], "acc": acc[None], "weight_hh_l1": weight}
        output, _, updates = problem.run("auto", one, offsets=begin[None], min_skip=1, max_skip=2)
        return output.square().sum(), updates

    derive, weight = torch.func.grad(total, has_aux=True), tensors["weight_hh_l1"]
    columns = tensors["x"], tensors["h"].transpose(0, 1), tensors["p"], tensors["acc"], begin
    together = torch.func.vmap(derive, (None, 0, 0, 0, 0, 0))(weight, *columns)
    alone = [derive(weight, *values) for values in zip(*columns)]
    assert_close(together[0], torch.stack([gradient for gradient, _ in alone]))
    assert_equal(together[1], torch.stack([updates for _, updates in alone]))
    assert_equal(together[1][:, 0], problem.run("reference", offsets=begin, min_skip=1, max_skip=2)[2])


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_traced_by_torch_jit():
    problem = make("gru")
    tensors = {name: tensor.detach() for name, tensor in problem.tensors.items()}

    def run(x):
        output, _, updates = problem.run("auto", tensors, x=x, min_skip=1, max_skip=2)
        return output, updates

    with torch.no_grad():
        traced = torch.jit.trace(run, (tensors["x"],))
        (output, updates), expected = traced(-tensors["x"]), run(-tensors["x"])
    assert_close(output, expected[0])
    assert_equal(updates, expected[1])


def test_without_values_it_gives_shapes():
    problem = make("lstm")
    expected = problem.run("auto", min_skip=1, max_skip=2)
    tensors = {name: tensor.to("meta") for name, tensor in problem.tensors.items()}
    output, state, updates = problem.run("auto", tensors, min_skip=1, max_skip=2)
    for got, value in zip((output, *state, updates), (expected[0], *expected[1], expected[2])):
        assert (got.shape, got.dtype) == (value.shape, value.dtype)
