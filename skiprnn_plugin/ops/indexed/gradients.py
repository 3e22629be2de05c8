"""The gradients that a backward pass carries along: those of the states, and the sums for the weights.

An update multiplies W x + b by the cell's derivative. With D the gradient of W x + b and R that of U h + b', both
[N, G * H] over any N updates,

    dW = D^T x      dU = R^T h (see :meth:`..cells.Cell.add_weight_hh_grad`)      db = sum D      db' = sum R
"""

from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ..cells import add_product
from ..types import PER_LAYER, LayerWeights, Results
from .forward import Inputs, pick

MANY = 64  # rows from which on a product of their own is worthwhile


class StateGradients:
    """The gradients of the state that each sequence holds at the current point of the backward pass.

    Attributes:
        h: one tensor [B, H] for each layer.
        c: like ``h``; None for each layer of a cell without a cell state.
        outputs: gradient that the outputs add to the top layer's h of a state that is still held after a step: the sum
            over that step and those that follow until the next update, [B, T, H]. None if only the last output counts.
    """

    def __init__(self, inputs: Inputs, updates: Tensor, gradients: Results):
        self.has_c = inputs.cell.has_c
        self.h: List[Tensor] = [d_layer.clone() for d_layer in gradients.h]
        self.c: List[Optional[Tensor]] = [None] * len(self.h)
        if self.has_c:
            self.c = [d_layer.clone() for d_layer in gradients.c]
        self.holds_initial = (updates.cumsum(1) == 0) & inputs.real
        self.outputs: Optional[Tensor] = None
        if inputs.last_only:
            self.h[-1] += gradients.output
        else:
            self.outputs = sum_while_held(gradients.output, updates, inputs.real)

    def read(self, rows: Optional[Tensor], place: Tuple[Tensor, Tensor]) -> Tuple[List[Tensor], List[Optional[Tensor]]]:
        """The gradients of h and c of the sequences ``rows`` (None: all), with those of the outputs while the state is
        held from ``place`` on, (sequences, steps), int64 [N] each."""
        dh, dc = pick(self.h, rows), pick(self.c, rows)
        return self.add_outputs(dh, place), dc

    def add_outputs(self, dh: List[Tensor], place: Tuple[Tensor, Tensor]) -> List[Tensor]:
        """``dh`` with the gradient of the outputs added to its top layer; see :meth:`read`."""
        return dh if self.outputs is None else [*dh[:-1], dh[-1] + self.outputs[place]]

    def write(self, layer: int, rows: Optional[Tensor], dh: Tensor, dc: Optional[Tensor]) -> None:
        """Set the gradients of one layer for the sequences ``rows`` (None: all)."""
        self.h[layer] = replace_rows(self.h[layer], rows, dh)
        if dc is not None:
            self.c[layer] = replace_rows(self.c[layer], rows, dc)

    def finish(self) -> Tuple[Tensor, Optional[Tensor]]:
        """The gradients of the initial h and c, [num_layers, B, H]; call it after the last iteration."""
        if self.outputs is not None and self.holds_initial.any():
            first = self.holds_initial.to(torch.uint8).argmax(1).view(-1, 1, 1)
            held = self.outputs.take_along_dim(first, 1).squeeze(1)
            self.h[-1] += held * self.holds_initial.any(1, keepdim=True)
        return torch.stack(self.h), torch.stack(self.c) if self.has_c else None


class WeightGradients:
    """The gradients of all layers' weights. Updates are collected and multiplied many at once."""

    def __init__(self, inputs: Inputs):
        self.cell, self.weights = inputs.cell, inputs.weights
        # Half precision would lose what many steps add up to
        self.wide = torch.promote_types(inputs.x.dtype, torch.float32)
        self.sums = [
            LayerWeights(*(torch.zeros_like(weight, dtype=self.wide) for weight in layer[:PER_LAYER]))
            for layer in self.weights
        ]
        self.pending: List[List[Tuple[Tensor, ...]]] = [[] for _ in self.weights]

    def collect(
        self, layer: int, d_input: Tensor, d_recurrent: Tensor, x: Tensor, h: Tensor, kept: Sequence[Tensor]
    ) -> None:
        """Take in N updates of a layer.

        Args:
            layer: its number, from 0.
            d_input: gradient of W x + b, [N, G * H].
            d_recurrent: gradient of U h + b', [N, G * H].
            x: what the layer read, [N, input].
            h: its hidden state before the update, [N, H].
            kept: what the cell kept for its backward, [N, H] each.
        """
        self.pending[layer].append((d_input, d_recurrent, x, h, *kept))
        if len(d_input) * len(self.pending[layer]) >= 2 * MANY:
            self._multiply(layer)

    def finish(self) -> List[LayerWeights]:
        """The gradients of every layer, in the dtypes of the weights."""
        for layer, factors in enumerate(self.pending):
            if factors:
                self._multiply(layer)
        return [
            LayerWeights(*(total.to(weight.dtype) for total, weight in zip(layer_sums[:PER_LAYER], layer)))
            for layer_sums, layer in zip(self.sums, self.weights)
        ]

    def _multiply(self, layer: int) -> None:
        d_input, d_recurrent, x, h, *kept = (
            parts[0] if len(parts) == 1 else torch.cat(parts) for parts in zip(*self.pending[layer])
        )
        sums = self.sums[layer]
        add_product(sums.weight_ih, d_input, x)
        self.cell.add_weight_hh_grad(sums.weight_hh, d_recurrent, h, kept)
        sums.bias_ih.add_(d_input.sum(0, dtype=self.wide))
        sums.bias_hh.add_(d_recurrent.sum(0, dtype=self.wide))
        self.pending[layer].clear()


def replace_rows(tensor: Tensor, rows: Optional[Tensor], values: Tensor) -> Tensor:
    """``tensor`` with ``values`` in the given rows, changed in place; ``values`` itself for None, all rows."""
    if rows is None:
        return values
    tensor[rows] = values
    return tensor


def add_inner_products(total, dh, dc, new_h, new_c, old_h, old_c):
    """``total`` + <dS, S_new - S_old>, [N]: the sum over all layers, and over h and c, of tensors [N, H] each."""
    for layer, gradient in enumerate(dh):
        total = total + torch.linalg.vecdot(gradient, new_h[layer] - old_h[layer])
        if dc[layer] is not None:
            total = total + torch.linalg.vecdot(dc[layer], new_c[layer] - old_c[layer])
    return total


def sum_while_held(d_output: Tensor, updates: Tensor, real: Tensor) -> Tensor:
    """The sum of the outputs' gradients from each step on, for as long as the state after it is held, [B, T, H]."""
    d_output = d_output.masked_fill(~real.unsqueeze(-1), 0)
    sums = torch.empty_like(d_output)
    wide = torch.promote_types(d_output.dtype, torch.float32)
    total = torch.zeros_like(d_output[:, 0], dtype=wide)
    for t in range(d_output.shape[1] - 1, -1, -1):
        total = total + d_output[:, t]
        sums[:, t] = total
        total = total.masked_fill(updates[:, t].unsqueeze(-1), 0)
    return sums
