"""The gradients of :mod:`.forward`: over the updates in reverse.

``d.`` is the gradient of the loss with respect to ``.`` after step t. S is the state of all layers, h and c, and S~_t
the candidate state, which the state becomes where step t is updated. Autograd on the specification gives, at every
step, for the state

    dS~_t = u_t dS_t + (through the gate, see :mod:`.gate`) w p~_t (1 - p~_t) dp~_t
    dS_{t-1} = (1 - u_t) dS_t + cell backward of dS~_t

So at a skipped step dS stays as it is, and no gradient reaches x_t or the weights: this pass computes the cell's
backward at the updates alone. What happens at the skipped steps is the business of :mod:`.gate`.
"""

from typing import List, NamedTuple, Optional

import torch
from torch import Tensor

from ..types import LayerWeights, SkipState
from .forward import Inputs, Step, pick, start
from .gate import GateGradients
from .gradients import StateGradients, WeightGradients


class Gradients(NamedTuple):
    """The gradients of the inputs, by the inputs' names. A gradient is None where the input does not exist, or where
    the caller did not ask for it."""

    x: Optional[Tensor]
    weights: List[LayerWeights]
    state: SkipState
    gate_weight: Optional[Tensor]
    gate_bias: Optional[Tensor]
    dropout_mask: Optional[Tensor]


def backward(
    inputs: Inputs,
    steps: List[Step],
    updates: Tensor,
    d_output: Tensor,
    d_state: SkipState,
    d_updates: Tensor,
    need_dx: bool,
) -> Gradients:
    """The gradients of the inputs, from the gradients of what ``forward`` returned.

    Args:
        inputs: what ``forward`` was given.
        steps: what ``forward`` kept; this function empties the list.
        updates: [B, T].
        d_output: gradient of the output, [B, T, H], or [B, H] with ``inputs.last_only``.
        d_state: gradient of the final state.
        d_updates: gradient of the updates, [B, T].
        need_dx: whether to compute the gradient of ``x``.
    """
    return _Backward(inputs, steps, updates.bool(), d_output, d_state, d_updates, need_dx).run()


class _Backward:
    """One backward pass: it visits the iterations of the forward pass in reverse."""

    def __init__(self, inputs: Inputs, steps: List[Step], updates, d_output, d_state, d_updates, need_dx):
        self.inputs, self.steps = inputs, steps
        self.states = StateGradients(inputs, updates, d_output, d_state)
        self.gate = None
        if inputs.gate is not None:
            self.gate = GateGradients(inputs, steps, updates, d_state, d_updates)
        self.weights = WeightGradients(inputs)
        self.dx = torch.zeros_like(inputs.x, memory_format=torch.contiguous_format) if need_dx else None
        self.d_mask = None
        if inputs.dropout_mask is not None:
            self.d_mask = torch.zeros_like(inputs.dropout_mask, dtype=self.weights.wide)
        self.unchanged = d_state.p, d_state.acc

    def run(self) -> Gradients:
        inputs = self.inputs
        while True:
            step = self.steps.pop() if self.steps else None  # so that its memory is free after this turn
            if self.gate is not None:
                self.gate.pass_skipped(step or start(inputs), self.states)
            if step is None:
                break
            self._pass_updates(step, self.steps[-1] if self.steps else start(inputs))
        d_h, d_c = self.states.finish()
        if self.gate is None:
            (d_p, d_acc), d_gate = (value.clone() for value in self.unchanged), (None, None)
        else:
            d_p, d_acc, d_gate = self.gate.p, self.gate.acc, self.gate.parameters()
        d_mask = None if self.d_mask is None else self.d_mask.to(inputs.dropout_mask.dtype)
        return Gradients(self.dx, self.weights.finish(), SkipState(d_h, d_c, d_p, d_acc), *d_gate, d_mask)

    def _pass_updates(self, step: Step, before: Step) -> None:
        """Pass the updates of ``step``, which read and changed the states that ``before`` had made."""
        inputs = self.inputs
        rows = step.rows
        if rows is None:
            rows = torch.arange(len(inputs.x), device=step.times.device)
        old_h, old_c = pick(before.h, step.parent), pick(before.c, step.parent)
        dh, dc = self.states.read(step.rows, (rows, step.times))
        if self.gate is not None:
            self.gate.pass_updates(step, dh, dc, old_h, old_c)
        for layer in range(len(dh) - 1, -1, -1):
            w = inputs.weights[layer]
            d_input, d_recurrent, d_old_h, d_old_c = inputs.cell.backward(
                dh[layer], dc[layer], step.kept[layer], old_h[layer], old_c[layer], w
            )
            self.states.write(layer, step.rows, d_old_h, d_old_c)
            below = inputs.x[rows, step.times] if layer == 0 else step.h[layer - 1]
            if layer > 0:
                d_below = d_input @ w.weight_ih
                if inputs.dropout_mask is not None:
                    mask = inputs.dropout_mask[layer - 1][rows]
                    self.d_mask[layer - 1, rows] += d_below * below
                    d_below, below = d_below * mask, below * mask
                dh[layer - 1] = dh[layer - 1] + d_below
            elif self.dx is not None:
                self.dx[rows, step.times] = d_input @ w.weight_ih
            self.weights.collect(layer, d_input, d_recurrent, below, old_h[layer], step.kept[layer])
