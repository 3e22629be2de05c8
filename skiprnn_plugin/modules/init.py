"""Initial values of a Skip RNN's parameters."""

import math
from typing import Iterable, Type

import torch
from torch import Tensor, nn

from ..ops import Cell, LayerWeights


@torch.no_grad()
def init_layer_like_authors(cell: Type[Cell], w: LayerWeights) -> None:
    """Initialise a layer as the authors' program does: Glorot-uniform weights over each concatenated matrix,
    [input + H, gates * H], and biases of 0, to which ``cell.start_bias`` is added in ``bias_ih`` or in the layer norm's
    bias."""
    hidden = w.weight_hh.shape[-1]
    blocks = [gates * hidden for gates in cell.matrices]
    for parts in zip(w.weight_ih.split(blocks), w.weight_hh.split(blocks)):
        rows, columns = sum(part.shape[1] for part in parts), parts[0].shape[0]
        limit = math.sqrt(6 / (rows + columns))
        for part in parts:
            part.uniform_(-limit, limit)
    nn.init.zeros_(w.bias_ih)
    nn.init.zeros_(w.bias_hh)
    _init_norm(w)
    bias = w.norm_bias if w.norm_bias is not None and cell.bias_after_norm else w.bias_ih
    bias += torch.tensor(cell.start_bias, dtype=bias.dtype, device=bias.device).repeat_interleave(hidden)


@torch.no_grad()
def init_layer_like_torch(cell: Type[Cell], w: LayerWeights) -> None:
    """Initialise a layer as torch's RNN modules do: weights and biases from U(-1 / sqrt(H), 1 / sqrt(H))."""
    limit = 1 / math.sqrt(w.weight_hh.shape[-1])
    for tensor in (w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh):
        tensor.uniform_(-limit, limit)
    _init_norm(w)


def _init_norm(w: LayerWeights) -> None:
    if w.norm_weight is not None:
        nn.init.ones_(w.norm_weight)
        nn.init.zeros_(w.norm_bias)


@torch.no_grad()
def init_gate(weight: Tensor, bias: Tensor, update_bias: float, init: str) -> None:
    """Initialise the gate: a weight as :data:`GATE_INITS` says, and the bias ``update_bias``."""
    GATE_INITS[init](weight)
    nn.init.constant_(bias, update_bias)


@torch.no_grad()
def init_states(states: Iterable[Tensor]) -> None:
    """Draw learned initial states from N(0, 1)."""
    for state in states:
        nn.init.normal_(state)


INITS = {"authors": init_layer_like_authors, "torch": init_layer_like_torch}
GATE_INITS = {"authors": nn.init.xavier_uniform_, "zeros": nn.init.zeros_}
