"""The ``indexed`` engine: by update, not by time step, in plain torch, with a backward of its own."""

from typing import List, Optional, Tuple

import torch
from torch import Tensor

from .by_update import Inputs, forward
from .by_update_backward import backward
from .types import Gate, LayerWeights, SkipState


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx, meta, x, h, c, p, acc, gate_weight, gate_bias, dropout_mask, *flat):
        cell, real, schedule, threshold, last_only, gate_layers = meta
        weights = [LayerWeights(*flat[i : i + 4]) for i in range(0, len(flat), 4)]
        gate = None if gate_weight is None else Gate(gate_weight, gate_bias, gate_layers)
        inputs = Inputs(x, weights, SkipState(h, c, p, acc), gate, cell, real, schedule, threshold, dropout_mask, last_only)
        output, state, updates, steps = forward(inputs, any(ctx.needs_input_grad))
        ctx.inputs, ctx.steps, ctx.updates = inputs, steps, updates
        ctx.set_materialize_grads(True)
        return output, state.h, state.c, state.p, state.acc, updates

    @staticmethod
    def backward(ctx, d_output, dh, dc, dp, dacc, d_updates):
        g = backward(ctx.inputs, ctx.steps, ctx.updates, d_output, SkipState(dh, dc, dp, dacc), d_updates, ctx.needs_input_grad[1])
        flat = [each for layer in g.weights for each in layer[:4]]
        return None, g.x, g.state.h, g.state.c, g.state.p, g.state.acc, g.gate_weight, g.gate_bias, g.dropout_mask, *flat


def scan(x, weights, state, gate, *, cell, real, schedule, threshold, dropout_mask, last_only):
    if real is None:
        real = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
    flat = [each for w in weights for each in w[:4]]
    layers = None if gate is None else tuple(layer % len(weights) for layer in gate.layers)
    meta = cell, real, schedule, threshold, last_only, layers
    out = _Scan.apply(meta, x, *state, None if gate is None else gate.weight, None if gate is None else gate.bias, dropout_mask, *flat)
    output, h, c, p, acc, updates = out
    return output, SkipState(h, c, p, acc), updates
