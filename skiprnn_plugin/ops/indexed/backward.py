"""The gradients of :mod:`.forward`: over the updates in reverse.

``d.`` is the gradient of the loss with respect to ``.`` after step t. S is the state of all layers, h and c, and S~_t
the candidate state, which the state becomes where step t is updated. Autograd on the specification gives, at every
step, for the state

    dS~_t = u_t dS_t + (through the gate, see :mod:`.gate`) w p~_t (1 - p~_t) dp~_t
    dS_{t-1} = (1 - u_t) dS_t + cell backward of dS~_t

So at a skipped step dS stays as it is, and no gradient reaches x_t or the weights: this pass computes the cell's
backward at the updates alone. What happens at the skipped steps is handled in :mod:`.gate`.
"""

from typing import List, Tuple

import torch
from torch import Tensor

from ..types import LayerWeights, Operands, Results
from .forward import Inputs, Iteration, pick, start
from .gate import GateGradients
from .gradients import StateGradients, WeightGradients


def backward(
    inputs: Inputs,
    iterations: List[Iteration],
    updates: Tensor,
    gradients: Results,
    need_dx: bool,
) -> Tuple[Operands, List[LayerWeights]]:
    """The gradients of the operands (None where there is no operand, or no gradient) and of the layers' weights.

    Args:
        inputs: what ``forward`` was given.
        iterations: what ``forward`` kept; this function empties the list.
        updates: [B, T].
        gradients: those of what ``forward`` returned.
        need_dx: whether to compute the gradient of ``x``.
    """
    return _Backward(inputs, iterations, updates.bool(), gradients, need_dx).run()


class _Backward:
    """One backward pass: it visits the iterations of the forward pass in reverse."""

    def __init__(self, inputs: Inputs, iterations: List[Iteration], updates: Tensor, gradients: Results, need_dx: bool):
        self.inputs, self.iterations = inputs, iterations
        self.states = StateGradients(inputs, updates, gradients)
        self.gate = None
        if inputs.gate is not None:
            self.gate = GateGradients(inputs, iterations, updates, gradients)
        self.weights = WeightGradients(inputs)
        self.dx = torch.zeros_like(inputs.x, memory_format=torch.contiguous_format) if need_dx else None
        self.d_mask = None
        if inputs.dropout_mask is not None:
            self.d_mask = torch.zeros_like(inputs.dropout_mask, dtype=self.weights.wide)
        self.gradients = gradients

    def run(self) -> Tuple[Operands, List[LayerWeights]]:
        inputs = self.inputs
        while True:
            iteration = self.iterations.pop() if self.iterations else None  # so that its memory is free after this turn
            if self.gate is not None:
                self.gate.pass_skipped(iteration or start(inputs), self.states)
            if iteration is None:
                break
            self._pass_updates(iteration, self.iterations[-1] if self.iterations else start(inputs))
        d_h, d_c = self.states.finish()
        if self.gate is None:  # p and acc stay as they are
            d_p, d_acc, d_gate_weight, d_gate_bias = self.gradients.p.clone(), self.gradients.acc.clone(), None, None
        else:
            d_p, d_acc = self.gate.p, self.gate.acc
            d_gate_weight, d_gate_bias = self.gate.parameters()
        d_mask = None if self.d_mask is None else self.d_mask.to(inputs.dropout_mask.dtype)
        return Operands(self.dx, d_h, d_c, d_p, d_acc, d_gate_weight, d_gate_bias, d_mask), self.weights.finish()

    def _pass_updates(self, iteration: Iteration, before: Iteration) -> None:
        """Pass the updates of ``iteration``, which read and changed the states that ``before`` had made."""
        inputs = self.inputs
        rows = iteration.rows
        if rows is None:
            rows = torch.arange(len(inputs.x), device=iteration.times.device)
        old_h, old_c = pick(before.h, iteration.parent), pick(before.c, iteration.parent)
        dh, dc = self.states.read(iteration.rows, (rows, iteration.times))
        if self.gate is not None:
            self.gate.pass_updates(iteration, dh, dc, old_h, old_c)
        for layer in range(len(dh) - 1, -1, -1):
            w = inputs.weights[layer]
            d_input, d_recurrent, d_old_h, d_old_c = inputs.cell.backward(
                dh[layer], dc[layer], iteration.kept[layer], old_h[layer], old_c[layer], w
            )
            self.states.write(layer, iteration.rows, d_old_h, d_old_c)
            below = inputs.x[rows, iteration.times] if layer == 0 else iteration.h[layer - 1]
            if layer > 0:
                d_below = d_input @ w.weight_ih
                if inputs.dropout_mask is not None:
                    mask = inputs.dropout_mask[layer - 1][rows]
                    self.d_mask[layer - 1, rows] += d_below * below
                    d_below, below = d_below * mask, below * mask
                dh[layer - 1] = dh[layer - 1] + d_below
            elif self.dx is not None:
                self.dx[rows, iteration.times] = d_input @ w.weight_ih
            self.weights.collect(layer, d_input, d_recurrent, below, old_h[layer], iteration.kept[layer])
