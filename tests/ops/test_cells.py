"""One step of every cell against its formulas, written in numpy from the cells' docstrings."""

import numpy as np
import pytest
import torch

from ..compare import assert_close
from .problems import Problem, dtype_of, every_cell, every_engine, every_engine_with_masks, mixed_updates


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def layer_norm(gates, w):
    """(a - mean) / (std + 1e-3), gate by gate, with gain and bias."""
    mean, std = gates.mean(-1, keepdims=True), gates.std(-1, keepdims=True)
    size = gates.shape[-1]
    return (gates - mean) / (std + 1e-3) * w["norm_weight"].reshape(-1, size) + w["norm_bias"].reshape(-1, size)


def step(cell, x, h, c, w, factors=1):
    """New h and c, [B, H], of the layer with weights ``w``; recurrent dropout's ``factors`` are on what is written."""
    blocks = (len(h), -1, h.shape[1])
    from_x, from_h = (x @ w["weight_ih"].T + w["bias_ih"]).reshape(blocks), h @ w["weight_hh"].T + w["bias_hh"]
    from_h = from_h.reshape(blocks)
    norm = layer_norm if "norm_weight" in w else lambda gates, w: gates
    if cell == "lstm":
        i, f, g, o = norm(from_x + from_h, w).swapaxes(0, 1)
        c = sigmoid(f) * c + sigmoid(i) * (np.tanh(g) * factors)
        return sigmoid(o) * np.tanh(c), c
    if cell == "rnn":
        return np.tanh(norm(from_x + from_h, w))[:, 0] * factors, None
    r, z = sigmoid(norm(from_x[:, :2] + from_h[:, :2], w)).swapaxes(0, 1)
    if cell == "gru":
        n = np.tanh(from_x[:, 2] + r * from_h[:, 2])
    else:
        size = h.shape[1]
        n = np.tanh(from_x[:, 2] + (r * h) @ w["weight_hh"][2 * size :].T + w["bias_hh"][2 * size :])
    return (1 - z) * (n * factors) + z * h, None


def check(cell, engine, problem, layer_norm):
    output, state, _ = problem.run(engine, gate=None)
    values = {name: tensor.detach().cpu().numpy() for name, tensor in problem.tensors.items()}
    w = {name[: -len("_l0")]: value for name, value in values.items() if name.endswith("_l0")}
    assert ("norm_weight" in w) == layer_norm
    h, c = step(cell, values["x"][:, 0], values["h"][0], values["c"][0] if "c" in values else None, w)
    assert_close(output[:, 0], torch.from_numpy(h).to(output.device), "h")
    if c is not None:
        assert_close(state.c[0], torch.from_numpy(c).to(output.device), "c")


@every_engine
@every_cell
@pytest.mark.parametrize("batch, hidden", [(4, 5), (1, 1), (7, 33), (33, 7)])
def test_one_step(cell, engine, batch, hidden):
    problem = Problem(cell, batch, steps=1, hidden=hidden, layers=1, dtype=dtype_of(engine))
    check(cell, engine, problem, layer_norm=False)


@every_cell
@pytest.mark.parametrize("scale", [1.0, 1e-3], ids=["deviation-1", "deviation-near-eps"])
def test_one_step_with_layer_norm(cell, scale):
    problem = Problem(cell, steps=1, layers=1, layer_norm=True)
    with torch.no_grad():
        for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
            problem.tensors[name] *= scale
    check(cell, "reference", problem, layer_norm=True)


@every_cell
def test_layer_norm_of_large_numbers_in_half_precision(cell):
    """float16 ends at 65,504, which is the square of 256."""
    problem = Problem(cell, steps=1, layers=1, layer_norm=True, dtype=torch.float16)
    problem.tensors["x"].data *= 1000
    wide = {name: tensor.detach().float() for name, tensor in problem.tensors.items()}
    (half, *_), (expected, *_) = (problem.run("reference", tensors, gate=None) for tensors in (None, wide))
    assert_close(half.float(), expected, "output", tolerance=0.01)


def read(cell, values, updates, masks):
    """All steps of a stack with zoneout and recurrent dropout: outputs [B, T, H] and the gate's last input [B, H]."""
    size, kept, factors = values["h"].shape[-1], masks["zoneout_mask"], masks["recurrent_dropout_mask"]
    state = {name: list(values[name]) for name in ("h", "c") if name in values}
    outputs = []
    for t in range(updates.shape[1]):
        x, candidate = values["x"][:, t], {name: [] for name in state}
        for layer in range(len(values["h"])):
            w = {name: values[f"{name}_l{layer}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
            old = [state[name][layer] if name in state else None for name in ("h", "c")]
            new = step(cell, x, *old, w, factors[layer, :, t])
            for index, name in enumerate(state):
                mask = kept[layer, :, t, index * size : (index + 1) * size]
                candidate[name].append(np.where(mask == 1, old[index], new[index]))
            x = candidate["h"][-1]
        q = candidate["c" if "c" in state else "h"][-1]
        used = updates[:, t, None]
        state = {name: [np.where(used, *pair) for pair in zip(candidate[name], state[name])] for name in state}
        outputs.append(state["h"][-1])
    return np.stack(outputs, 1), q


@every_engine_with_masks
@every_cell
@pytest.mark.parametrize("scheduled", [False, True], ids=["every-step", "some-steps"])
def test_zoneout_and_recurrent_dropout(cell, engine, scheduled):
    problem = Problem(cell, steps=6)
    masks = problem.masks()
    updates = mixed_updates(4, 6) if scheduled else torch.ones(4, 6, dtype=torch.bool)
    output, state, _ = problem.run(engine, schedule=updates, **masks)
    values = {name: tensor.detach().cpu().numpy() for name, tensor in problem.tensors.items()}
    expected, q = read(cell, values, updates.cpu().numpy(), {name: mask.cpu().numpy() for name, mask in masks.items()})
    assert_close(output, torch.from_numpy(expected).to(output.device), "output")
    p = sigmoid(q @ values["update_weight"][0] + values["update_bias"])
    last = updates[:, -1]
    assert last.any()
    assert_close(state.p[last], torch.from_numpy(p).to(output.device)[last], "p")
