"""The triton engine where every update is a few launches, for stacks of layers and for many units."""

import pytest
import torch

from skiprnn_plugin.ops.types import Operands, Options, flatten_weights

from .problems import Problem, cells_quick

pytest.importorskip("triton")
from skiprnn_plugin.ops.triton import forward, policy, run_launches  # noqa: E402
from skiprnn_plugin.ops.triton.call import EMULATED, Prepared, Records, describe  # noqa: E402
from skiprnn_plugin.ops.triton.candidates import NUM_FACTORS  # noqa: E402

pytestmark = pytest.mark.skipif(
    not EMULATED and torch.get_default_device().type != "cuda",
    reason="triton needs a GPU, or TRITON_INTERPRET=1 and patience",
)
choose = policy.choose
LENGTHS = {"lengths": [4, 0, 3], "offsets": [0, 2, 1]}


@pytest.fixture(autouse=True)
def launches(monkeypatch):
    """Whatever the policy says."""
    monkeypatch.setattr(policy, "choose", lambda call: choose(call)._replace(on_chip=False))


def problem(cell, **options):
    return Problem(cell, **{"batch": 3, "steps": 4, "dtype": torch.float32, "resumed": True, "scale": 0.7, **options})


def assert_same_results(a, b, tolerance=1e-5):
    (output, state, updates), (expected, expected_state, expected_updates) = a, b
    assert torch.equal(updates, expected_updates)
    for value, other in zip((output, *state), (expected, *expected_state)):
        if other is not None:
            torch.testing.assert_close(value, other, atol=tolerance, rtol=tolerance)


def assert_same_gradients(problem, a, b, tolerance=1e-5):
    expected = problem.gradients(b)
    for name, value in problem.gradients(a).items():
        scale = 1 + float(expected[name].abs().max())
        torch.testing.assert_close(value, expected[name], atol=tolerance * scale, rtol=tolerance, msg=name)


@cells_quick("gru", "lstm")
@pytest.mark.parametrize(
    "layers, gate_layers, mode, options",
    [
        pytest.param(1, (-1,), "round", {}, marks=pytest.mark.thorough),
        (2, (0, 1), "bernoulli", LENGTHS),
        pytest.param(1, (-1,), "schedule", {"last_only": True, **LENGTHS}, marks=pytest.mark.thorough),
        pytest.param(2, (0,), "full", {"last_only": True}, marks=pytest.mark.thorough),
    ],
)
def test_equals_indexed(cell, layers, gate_layers, mode, options):
    small = problem(cell, layers=layers, gate_layers=gate_layers)
    options = {**options, **small.options(mode)}
    if layers > 1:
        mask = torch.rand(layers - 1, 3, 5, generator=torch.Generator().manual_seed(0), device="cpu") * 2
        options["dropout_mask"] = small.tensors["mask"] = mask.to(small.tensors["x"].device).requires_grad_()
    results, expected = small.run("triton", **options), small.run("indexed", **options)
    assert 0 < expected[2].sum() and (mode == "full" or expected[2].mean() < 1)
    assert_same_results(results, expected)
    assert_same_gradients(small, results, expected)


@cells_quick("gru")
def test_two_states_are_kept_for_the_last_output(cell):
    small = problem(cell)
    with torch.no_grad():
        assert_same_results(small.run("triton", last_only=True), small.run("indexed", last_only=True))


@pytest.mark.thorough
@pytest.mark.parametrize("cell", ["lstm", "gru_reset_before"])
def test_several_blocks_of_rows_and_of_units(cell, monkeypatch):
    tile = run_launches.choose_tile
    monkeypatch.setattr(run_launches, "choose_tile", lambda *call: {**tile(*call), "ROWS": 16, "BLOCK": 16})
    monkeypatch.setattr(run_launches, "DECIDED", 16)
    monkeypatch.setattr(run_launches, "SUMMED", 32)
    wide = problem(cell, batch=17, steps=2, hidden=20, scale=0.3)
    results, expected = wide.run("triton"), wide.run("indexed")
    assert_same_results(results, expected)
    assert_same_gradients(wide, results, expected)


def test_goes_on_where_there_was_no_more_room(monkeypatch):
    small = problem("lstm")
    with torch.no_grad():
        whole = small.run("triton")
        monkeypatch.setattr(forward, "RECORD_BYTES", 1)  # one update at a time
        parts = small.run("triton")
    for value, other in zip((parts[0], *parts[1], parts[2]), (whole[0], *whole[1], whole[2])):
        assert torch.equal(value, other)


@pytest.mark.parametrize("dtype", [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.thorough)])
def test_half_precision(dtype):
    small = problem("gru", batch=2, dtype=dtype, scale=0.4)
    wide = {name: value.detach().float().requires_grad_() for name, value in small.tensors.items()}
    options = small.options("schedule")
    results, expected = small.run("triton", **options), small.run("reference", wide, **options)
    torch.testing.assert_close(results[0].float(), expected[0], atol=0.02, rtol=0.02)
    gradients = small.gradients(results)
    small.tensors = wide
    for name, value in small.gradients(expected).items():
        scale = 1 + float(value.abs().max())
        torch.testing.assert_close(gradients[name].float(), value, atol=0.03 * scale, rtol=0.03, msg=name)


@cells_quick("lstm")
@pytest.mark.parametrize("gated", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_chain_equals_its_equations(cell, gated):
    layers, count, batch = 2, 4, 3
    small = problem(cell, gate_layers=(0, 1) if gated else (1,))
    call = as_call(small, gated)
    generator = torch.Generator().manual_seed(3)

    def drawn(*shape):
        return torch.randn(*shape, generator=generator, device="cpu").to(small.tensors["x"].device)

    counts = torch.tensor([3, 0, 2], dtype=torch.int32)
    made = (torch.arange(count).unsqueeze(1) <= counts).float()

    def per_run(*shape):
        values = drawn(count, batch, *shape) * made.view(count, batch, *(1 for _ in shape))
        if shape[-1] == call.width:
            values[..., call.hidden :] = 0
        return values

    states = per_run(call.num_states, call.width)
    prepared = Prepared(
        through_p=per_run(call.num_states, call.width) if gated else None,
        through_acc=per_run(call.num_states, call.width) if gated else None,
        scalars=per_run(4) if gated else None,
        outputs=per_run(call.width) if gated else None,
        factors=per_run(layers, NUM_FACTORS[cell], call.width),
    )
    records = Records(states, states[..., 0, 0], states[..., 0, 0], counts.expand(count, batch), counts)
    d_h = drawn(layers, batch, call.hidden)
    d_c = drawn(layers, batch, call.hidden) if call.cell.has_c else None
    plan = policy.choose(call)
    for name, value, expected in zip(
        ("candidates", "logits", "resets", "h", "c", "p", "acc"),
        run_launches.run_chain_launches(plan, call, records, prepared, d_h, d_c),
        chain(call, cell, counts.tolist(), prepared, d_h, d_c),
    ):
        assert (value is None) == (expected is None), name
        if value is not None:
            torch.testing.assert_close(value, expected, atol=1e-4, rtol=1e-4, msg=name)


def as_call(small, gated):
    arguments = small.arguments({name: value.detach() for name, value in small.tensors.items()})
    gate, state = arguments["gate"], arguments["state"]
    weight, bias, chosen = gate if gated else (None, None, ())
    mask = torch.tensor([0.5, 2.0, 0.0]).view(1, 3, 1).expand(1, 3, 5)
    operands = Operands(arguments["x"], *state, weight, bias, mask)
    chosen = [layer % small.layers for layer in chosen]
    return describe(operands, flatten_weights(arguments["weights"]), Options(small.cell, 0.5, chosen, False))


def chain(call, cell, counts, prepared, d_h, d_c):
    """The chain's equations, one sequence and one update after another; returns the fields of ``Chained``."""
    layers, hidden, width = len(call.layers), call.hidden, call.width
    count, batch = prepared.factors.shape[:2]
    candidates, logits = torch.zeros(count, batch, call.num_states, width), torch.zeros(count, batch)
    resets = torch.zeros(count, batch, layers, width)
    held = torch.cat([d_h, d_c] if call.cell.has_c else [d_h]).transpose(0, 1).clone()  # [B, S, H]
    d_p, d_acc = torch.zeros(2, batch)
    gated = prepared.scalars is not None
    for row in range(batch):
        e = 0
        for k in range(counts[row], -1, -1):
            d = held[row].clone()
            if gated:
                a, alpha, kappa, la = prepared.scalars[k, row]
                s = a + (d * prepared.through_p[k, row, :, :hidden]).sum() + alpha * e
                e = kappa + (d * prepared.through_acc[k, row, :, :hidden]).sum() + la * e
                if k == 0:
                    d_p[row], d_acc[row] = s, e
                else:
                    logits[k, row] = s
                    weights = call.operands.gate_weight[0].split(hidden)
                    for layer, weight in zip(call.options.gate_layers, weights):
                        d[layer + (layers if call.cell.has_c else 0)] += s * weight
                d[layers - 1] += prepared.outputs[k, row, :hidden]
            if k == 0:
                held[row, layers - 1] = d[layers - 1] if gated else held[row, layers - 1]
                continue
            for layer in range(layers - 1, -1, -1):
                w, f, dh = call.layers[layer], prepared.factors[k, row, layer, :, :hidden], d[layer]
                if cell == "lstm":
                    q = d[layers + layer] + dh * f[0]
                    state_part = input_part = torch.cat([q * f[1], q * f[2], q * f[3], dh * f[4]])
                    candidates[k, row, layers + layer, :hidden] = q
                    held[row, layers + layer] = q * f[5]
                    direct = 0
                elif cell == "gru":
                    r, z, direct = dh * f[0], dh * f[1], dh * f[4]
                    state_part, input_part = torch.cat([r, z, dh * f[2]]), torch.cat([r, z, dh * f[3]])
                elif cell == "gru_reset_before":
                    n, z = dh * f[0], dh * f[2]
                    reset = w.weight_hh[2 * hidden :].t() @ n
                    resets[k, row, layer, :hidden] = reset
                    input_part = torch.cat([reset * f[1], z, n])
                    state_part = torch.cat([reset * f[1], z, torch.zeros_like(n)])
                    direct = dh * f[3] + reset * f[4]
                else:
                    state_part = input_part = dh * f[0]
                    direct = 0
                candidates[k, row, layer, :hidden] = dh
                held[row, layer] = direct + w.weight_hh.t() @ state_part
                if layer > 0:
                    d[layer - 1] += call.operands.dropout_mask[layer - 1, row] * (w.weight_ih.t() @ input_part)
    held = held.transpose(0, 1)
    return (
        candidates,
        logits if gated else None,
        resets if cell == "gru_reset_before" else None,
        held[:layers],
        held[layers:] if call.cell.has_c else None,
        d_p if gated else None,
        d_acc if gated else None,
    )


@pytest.mark.parametrize("most", [1, 64, 65, 97, 98, 1000])
@pytest.mark.parametrize("needed", [1, 50, 1000])
def test_graphs_are_replayed_until_the_end(most, needed, monkeypatch):
    """On a stand-in for CUDA: at least as many iterations as are needed, and not many more."""
    made = []

    class Graph:
        def replay(self):
            made.extend(range(run_launches.REPLAYED))

    class Stream:
        def synchronize(self):
            pass

    class Tensor:
        is_cuda = True

    monkeypatch.setattr(run_launches, "_capture", lambda iterate: Graph())
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    run_launches.repeat(lambda: made.append(0), most, Tensor(), lambda: len(made) >= needed)
    assert min(most, needed) <= len(made) <= min(most, max(needed, 64)) + run_launches.REPLAYED
